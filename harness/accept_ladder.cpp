// accept_ladder: the Case, the climb, its report.
#include "harness/accept_ladder.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/error.h"
#include "harness/accept_report.h"
#include "harness/accept_tables.h"
#include "harness/ladder_rungs.h"
#include "harness/say.h"

namespace shardproof {
namespace {

constexpr int interrupted_exit = 130;
constexpr int steps = 10;  // what a layout breaks shows in the first

void check_set(const LadderOptions& options) {
  for (const std::string& assignment : options.set) {
    const std::string key = assignment.substr(0, assignment.find('='));
    const bool decided = key.starts_with("checkpoint.") || key == "run.layout" ||
                         key == "run.backend" || key == "run.fault" || key == "numerics.reduction";
    if (!decided) continue;
    throw Error(ErrorKind::bad_input, "--set " + assignment,
                key + " is decided by the rungs of the ladder");
  }
}

std::string replay_of(const LadderOptions& options, int number) {
  std::string out = fmt::format("shardproof accept --ladder --rung {}", number);
  if (options.backend != LadderOptions().backend) out += " --backend " + options.backend;
  for (const std::string& assignment : options.set) out += fmt::format(" --set '{}'", assignment);
  return out;
}

void write_expectations(const std::vector<Rung>& rungs, int only, const std::string& out) {
  Json expected = Json::array();
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    if (only != 0 && only != number) continue;
    expected.push_back(
        Json{{"rung", number}, {"check", rungs[i].name}, {"expected", rungs[i].compared}});
  }
  std::ofstream file(out + "/expectations.json");
  file << expected.dump(1) << '\n' << std::flush;
  if (!file) throw Error(ErrorKind::io, "write " + out + "/expectations.json", "expectations");
}

ReportSection rung_table(const Climb& climb) {
  ReportSection out{"Ladder", {"rung", "", "compared", "verdict", "found"}, {}, ""};
  for (const ClimbedRung& rung : climb.rungs) {
    std::string found = rung.verdict.reason;
    for (const std::string& note : rung.verdict.notes) {
      found += (found.empty() ? "" : "; ") + note;
    }
    out.rows.push_back({std::to_string(rung.number), rung.verdict.check, rung.verdict.sentence,
                        std::string(word(rung)), found});
  }
  return out;
}

ReportSection second_table(const Climb& climb) {
  ReportSection out{"Ladder: seconds", {"rung", "", "seconds"}, {}, ""};
  for (const ClimbedRung& rung : climb.rungs) {
    out.rows.push_back(
        {std::to_string(rung.number), rung.verdict.check, fmt::format("{:.2f}", rung.seconds)});
  }
  return out;
}

// The leg of the first rung, for the facts and the curve of the report.
std::vector<LegResult> first_leg(const Config& config, const LadderPlace& place) {
  const std::string folder = one_batch_trace(place);
  if (!std::filesystem::exists(folder)) return {};
  LegResult leg;
  leg.leg = {"main", one_batch_case(config), {}, std::nullopt};
  leg.trace = read_trace(folder);
  return {leg};
}

Report report_of(const Config& config, const Climb& climb, const LadderPlace& place,
                 const std::string& title, double seconds) {
  CorpusResult result;
  result.corpus.name = "ladder";
  result.corpus.config = config;
  result.legs = first_leg(config, place);
  for (const ClimbedRung& rung : climb.rungs) result.verdicts.push_back(rung.verdict);
  Report report = make_report(title, {result}, seconds);
  report.sections = {rung_table(climb)};
  if (const Trace* trace = result.trace("main")) {
    report.sections.push_back(loss_table("one batch", *trace));
  }
  report.timing_sections = {second_table(climb)};
  report.inferences.back() =
      "Thread ranks and MPI processes run the same step; the two nodes share kernel, files and "
      "clock: what only machines apart can do was not met here.";
  report.not_verified = {
      "Mixed precision, which is not built; layouts other than the ones listed; restarts and "
      "elastic recovery; other machines, other kernels, GPUs; speed."};
  for (const ClimbedRung& rung : climb.rungs) {
    if (rung.verdict.outcome != Outcome::inconclusive) continue;
    report.not_verified.push_back(fmt::format("{}: {}", rung.verdict.check, rung.verdict.reason));
  }
  return report;
}

}  // namespace

Config ladder_case(const LadderOptions& options) {
  check_set(options);
  Config config;
  config.training.steps = steps;
  Origins origins;
  for (const std::string& assignment : options.set) set_key(config, assignment, &origins);
  config.run.layout = "dp1";  // the rungs choose others, where they are legal
  config.run.backend = options.backend;
  check(config, origins);
  Corpus corpus;
  corpus.config = config;
  check_corpus(corpus);
  check_inputs({corpus});
  return config;
}

std::string rung_line(const ClimbedRung& rung) {
  const Verdict& verdict = rung.verdict;
  std::string out = fmt::format("{:>3} {:<17} {:<13} {:>6.1f} s  {}", rung.number, verdict.check,
                                word(rung), rung.seconds, verdict.sentence);
  const std::string found = verdict.outcome == Outcome::fail ? "" : verdict.reason;
  if (!found.empty()) out += "\n      " + found;
  for (const std::string& note : verdict.notes) out += "\n      " + note;
  if (verdict.outcome == Outcome::fail) out += "\n" + verdict_lines(verdict);
  return out;
}

int climb_ladder(const LadderOptions& options, const ProofOptions& proof) {
  const Duration begun = Clock::real().now();
  const Config config = ladder_case(options);
  const LadderPlace place{fresh_report_folder(proof.out), options.program, proof.stop};
  const std::vector<Rung> rungs = plan_rungs(config, place);
  write_expectations(rungs, options.rung, place.out);
  const auto tell = [&](const std::string& text) {
    if (!proof.quiet && !proof.json) say(text + "\n");
  };
  tell("ladder: " + shown_run_line(config));
  ClimbOptions climbing;
  climbing.only = options.rung;
  climbing.ended = [&](const ClimbedRung& rung) { tell(rung_line(rung)); };
  climbing.replay = [&](int number) { return replay_of(options, number); };
  climbing.stop = proof.stop;
  Climb climb = shardproof::climb(rungs, climbing);
  if (climb.interrupted) {
    tell("interrupted; the legs so far are in " + place.out + "/legs");
    return interrupted_exit;
  }
  for (ClimbedRung& rung : climb.rungs) {
    rung.verdict.reason = reproducible(rung.verdict.reason, place.out);
  }
  const double seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  const Report report = report_of(config, climb, place, proof.title, seconds);
  write_report(report, place.out);
  if (proof.json) say(report_json(report).dump(1) + "\n");
  tell(fmt::format("report: {}/report.html ({:.0f} s)", place.out, seconds));
  return exit_code(report.verdicts);
}

}  // namespace shardproof
