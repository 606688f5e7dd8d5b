// Facts, tables and statements of a report; verdicts as text.
#include "harness/accept_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/digest.h"
#include "data/dataset.h"
#include "harness/accept_tables.h"
#include "harness/child.h"
#include "invariants/trace_checks.h"
#include "train/sections.h"

namespace shardproof {
namespace {

std::string host_name() {
  char text[256] = {};
  return ::gethostname(text, sizeof text - 1) == 0 ? text : "unknown";
}

std::int64_t parameter_count(const Config& config) {
  return PieceTable(gpt_pieces(shape_of(config))).elements();
}

Json input_facts(const Corpus& corpus) {
  const Config& config = corpus.config;
  const auto dataset =
      open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                   static_cast<std::uint64_t>(config.training.seed));
  Json out{{"case", case_line(config)},
           {"config_digest", config_digest(config)},
           {"parameters", parameter_count(config)},
           {"layout", config.run.layout},
           {"backend", config.run.backend},
           {"seed", config.training.seed},
           {"data", config.data.sources.empty() ? config.data.kind : "mixture"}};
  if (!config.data.path.empty()) {
    out["file"] = std::filesystem::path(config.data.path).filename().string();
    out["file_bytes"] = std::filesystem::file_size(config.data.path);
  }
  out["samples"] = dataset->size();
  out["data_digest"] = dataset->digest().hex();
  out["tokenizer"] = dataset->tokenizer();
  return out;
}

// What the first rank of the first leg that ran says of the program.
Json program_facts(const std::vector<CorpusResult>& results) {
  Json out = Json::object();
  for (const CorpusResult& result : results) {
    const Trace* trace = result.trace("main");
    if (trace == nullptr || !trace->ranks.front().run.is_object()) continue;
    for (const char* key : {"code", "versions", "kernels"}) {
      if (trace->ranks.front().run.contains(key)) out[key] = trace->ranks.front().run[key];
    }
    break;
  }
  out["commit"] = source_commit();
  return out;
}

Json death_facts(const std::vector<CorpusResult>& results) {
  for (const CorpusResult& result : results) {
    const Trace* trace = result.trace("kill");
    if (trace == nullptr) continue;
    for (const Json& event : trace->harness) {
      if (event.value("kind", "") == "death") return event;
    }
  }
  return nullptr;
}

Json timing_facts(const std::vector<CorpusResult>& results, double seconds) {
  Json out = machine_facts(seconds);
  out["death"] = death_facts(results);
  return out;
}

constexpr std::size_t screen_width = 110, verdict_column = 23, detail_column = 16;

// Broken at blanks so that no line passes the width; later lines are indented to `column`.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string out;
  std::size_t at = column;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (at > column && at + 1 + (end - begin) > screen_width) {
      out += "\n" + std::string(column, ' ');
      at = column;
    } else if (at > column) {
      out += ' ';
      ++at;
    }
    out.append(text, begin, end - begin);
    at += end - begin;
    begin = end + 1;
  }
  return out;
}

std::string tensor_address(const Difference& at) {
  std::string out = at.tensor;
  if (at.piece >= 0) out += fmt::format(", piece {}", at.piece);
  if (at.rank >= 0) out += fmt::format(", rank {}", at.rank);
  if (at.element >= 0) out += fmt::format(", element {}", at.element);
  if (!at.index.empty()) out += fmt::format(", index [{}]", fmt::join(at.index, ","));
  return out;
}

void add_statements(Report& report) {
  report.scope = {
      "Canonical reduction: for one Case every legal layout gives the same bits on this machine "
      "and "
      "in this numerics mode (kernels, library versions). Another machine may give other bits "
      "unless "
      "numerics.portable is on.",
      "Native reduction: bits depend on the layout and the backend, so equality with one rank is "
      "judged by the declared error model on gradients from the same weights (verdict \"native "
      "layout\": at most 4 x float32's own error against float64). Repeat and resume are bit for "
      "bit on the same layout and backend.",
      "Verdicts are computed from the traces in legs/, never from the trainer's memory."};
  report.inferences = {
      "The state digest of a step stands for the state: two states with equal SHA-256 are taken to "
      "be equal. Digests are of every step; bytes were captured at some.",
      "One rank owning everything is the reference. That the reference itself is right (gradients "
      "against finite differences and PyTorch's numbers) is shown by the tests, not by this run.",
      "Thread ranks and MPI processes run the same step; what only a network between machines can "
      "do was not met here."};
  report.not_verified = {
      "Layouts other than the ones listed; tensor, sequence, context, pipeline and expert "
      "parallelism; ZeRO 2 and 3.",
      "Kills at other places than the one listed; hangs; damage to files while they are written.",
      "Other machines, other kernels, GPUs; speed."};
}

}  // namespace

std::string source_commit() {
  if (!std::filesystem::exists(SHARDPROOF_SOURCE_DIR "/.git")) return "unknown";
  try {
    const ChildResult git =
        run_child({"/usr/bin/env", "-u", "GIT_DIR", "-u", "GIT_WORK_TREE", "git", "-C",
                   SHARDPROOF_SOURCE_DIR, "describe", "--always", "--dirty", "--abbrev=12"},
                  std::chrono::seconds(10));
    if (git.exit_code == 0) return git.output.substr(0, git.output.find('\n'));
  } catch (const Error&) {
    // No git on this machine: the digest of the program still names it.
  }
  return "unknown";
}

Json machine_facts(double seconds) {
  return Json{{"host", host_name()},
              {"cores", std::thread::hardware_concurrency()},
              {"finished", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"seconds", seconds}};
}

Report make_report(const std::string& title, const std::vector<CorpusResult>& results,
                   double seconds) {
  Report report;
  report.title = title;
  report.facts["program"] = program_facts(results);
  report.timing = timing_facts(results, seconds);
  for (const CorpusResult& result : results) {
    const std::string& name = result.corpus.name;
    const Config shown = run_of(result.corpus);
    report.run_line +=
        fmt::format("{}{}: {}", report.run_line.empty() ? "" : "\n", name, shown_run_line(shown));
    report.config_toml += fmt::format("# {}\n{}\n", name, to_toml(shown));
    report.facts[name] = input_facts(result.corpus);
    report.verdicts.insert(report.verdicts.end(), result.verdicts.begin(), result.verdicts.end());
    const auto add = [&](ReportSection section) { report.sections.push_back(std::move(section)); };
    const Trace* main = result.trace("main");
    if (main != nullptr) {
      add(loss_table(name, *main));
      add(memory_table(name, *main));
    }
    if (result.manifest) add(manifest_table(name, *result.manifest));
    for (const char* leg : {"resumed", "resharded", "kill-resumed"}) {
      const Trace* resumed = result.trace(leg);
      if (main == nullptr || resumed == nullptr) continue;
      add(resume_table(
          fmt::format("{}: {} from step {}", name, leg, result.corpus.checkpoint_step()), *main,
          *resumed, result.corpus.checkpoint_step()));
    }
    add(digest_table(name, result.legs));
    report.timing_sections.push_back(time_table(name, result.legs));
    for (ReportSeries& series : loss_series(name, result.legs)) report.series.push_back(series);
  }
  add_statements(report);
  return report;
}

std::string shown_run_line(const Config& config) {
  const std::string line = run_line(config);
  return line.empty() ? "every key at its default" : line;
}

std::string verdict_lines(const Verdict& verdict) {
  const bool passed = verdict.outcome == Outcome::pass;
  const bool known = verdict.outcome == Outcome::expected_fail;
  const char* word = verdict.outcome == Outcome::fail ? "FAIL"
                     : passed                         ? "PASS"
                     : known                          ? "XFAIL"
                                                      : "OPEN";
  std::string out = fmt::format("{:<6}{:<15}  ", word, verdict.check);
  if (passed) {
    out += wrapped(verdict.sentence, verdict_column) + "\n";
    if (verdict.check != native_layout_check) return out;
    // A ratio is a measurement: how near it came is worth a line.
    return out + std::string(verdict_column, ' ') +
           wrapped(verdict.notes.empty() ? "" : verdict.notes.front(), verdict_column) + "\n";
  }
  out += verdict.subject + "\n";
  const auto line = [&](const char* key, const std::string& text) {
    out += fmt::format("      {:<9} {}\n", key, text);
  };
  line("expected", wrapped(verdict.sentence, detail_column));
  if (!verdict.difference || known) line("found", wrapped(verdict.reason, detail_column));
  if (verdict.difference) {
    const Difference& at = *verdict.difference;
    line("step", fmt::format("{}, {}", at.step, at.phase));
    if (!at.tensor.empty()) line("tensor", tensor_address(at));
    if (at.tensor.empty() && at.rank >= 0) line("rank", std::to_string(at.rank));
    if (!at.left_ranks.empty() || !at.right_ranks.empty()) {
      line("held by", fmt::format("[{}] of the expected side, [{}] of the judged",
                                  fmt::join(at.left_ranks, ","), fmt::join(at.right_ranks, ",")));
    }
    line("bits", at.left + " expected");
    line("", at.right + " found");
    if (at.times > 0) line("", fmt::format("{:.3g} x the rounding error", at.times));
  }
  if (!verdict.replay.empty()) line("replay", verdict.replay);
  return out;
}

}  // namespace shardproof
