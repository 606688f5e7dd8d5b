// The order of an acceptance run: inputs, folder, expectations, legs, report, screen.
#include "harness/accept.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/clock.h"
#include "data/dataset.h"
#include "harness/accept_report.h"
#include "harness/accept_run.h"
#include "harness/accept_tables.h"
#include "harness/output_path.h"
#include "harness/say.h"
#include "train/sections.h"

namespace shardproof {
namespace {

constexpr int interrupted_exit = 130;

void write_expectations(const std::vector<Corpus>& corpora, const std::string& out) {
  std::ofstream file(out + "/expectations.json");
  file << expectations(corpora).dump(1) << '\n' << std::flush;
  if (!file) throw Error(ErrorKind::io, "write " + out + "/expectations.json", "expectations");
}

// The verdicts are worth showing even where the disk does not take them.
std::optional<Error> try_write_report(const Report& report, const std::string& out) try {
  write_report(report, out);
  return std::nullopt;
} catch (const Error& error) {
  return Error(
      error.kind(), "report in " + out,
      fmt::format("could not be written ({}: {}); the verdicts above stand, their evidence "
                  "is not whole",
                  error.place(), error.detail()));
}

class Screen {
 public:
  explicit Screen(bool quiet) : quiet_(quiet) {}
  void say(const std::string& text) const {
    if (!quiet_) shardproof::say(text + "\n");
  }

 private:
  bool quiet_;
};

}  // namespace

void check_inputs(const std::vector<Corpus>& corpora) {
  for (const Corpus& corpus : corpora) {
    const Config& config = corpus.config;
    const auto dataset =
        open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                     static_cast<std::uint64_t>(config.training.seed));
    const bool has_epochs = dataset->sources().empty();
    if (has_epochs && dataset->size() < config.training.global_batch &&
        config.data.last == "drop") {
      throw Error(ErrorKind::bad_input,
                  config.data.path.empty() ? "data.samples" : config.data.path,
                  fmt::format("holds {} samples; expected at least one global batch of {}",
                              dataset->size(), config.training.global_batch));
    }
  }
}

std::string fresh_report_folder(const std::string& asked) {
  if (asked.empty()) return make_numbered_folder("shardproof-report");
  make_fresh_folder(asked);
  return asked;
}

int bisect_exit_code(int exit_code) {
  constexpr int undecided = 3, skip = 125;
  return exit_code == undecided ? skip : exit_code;
}

int prove(const std::vector<Corpus>& corpora, const ProofOptions& options) try {
  const Duration begun = Clock::real().now();
  check_inputs(corpora);
  const std::string out = fresh_report_folder(options.out);
  write_expectations(corpora, out);
  const Screen screen(options.quiet || options.json);
  std::vector<CorpusResult> results;
  for (const Corpus& corpus : corpora) {
    screen.say(fmt::format("{}: {}", corpus.name, shown_run_line(run_of(corpus))));
    try {
      results.push_back(prove_corpus(
          corpus, {out, [&](const std::string& line) { screen.say(line); }, options.stop}));
    } catch (const Error& error) {  // a disk that takes nothing more
      throw Error(error.kind(), error.place(),
                  fmt::format("{}; the report in {} could not be written", error.detail(), out));
    }
    if (results.back().interrupted) {
      screen.say("interrupted; the legs so far are in " + out + "/legs");
      return interrupted_exit;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  const Report report = make_report(options.title, results, seconds);
  const std::optional<Error> lost = try_write_report(report, out);
  for (const ReportSection& section : report.sections) screen.say("\n" + text_table(section));
  std::string lines;
  for (const CorpusResult& result : results) {
    lines += fmt::format("\n{}\n", result.corpus.name);
    for (const Verdict& verdict : result.verdicts) lines += verdict_lines(verdict);
  }
  screen.say(lines);
  if (options.json) shardproof::say(report_json(report).dump(1) + "\n");
  if (lost) throw *lost;
  screen.say(fmt::format("report: {}/report.html ({:.0f} s)", out, seconds));
  return exit_code(report.verdicts);
} catch (const std::filesystem::filesystem_error& error) {
  throw Error(ErrorKind::io, error.path1().string(), error.code().message());
}

}  // namespace shardproof
