// accept_faults: three scenarios and their verdicts.
#include "harness/accept_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "faults/inject/injector.h"
#include "harness/campaign.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr int fault_steps = 6;  // saves after 2, 4 and 6

Config fault_case(const Corpus& corpus) {
  Config config = corpus.config;
  config.training.steps = std::min(config.training.steps, fault_steps);
  config.checkpoint = {};
  config.run.backend = "threads";
  config.run.fault.clear();
  return with_fault_defaults(config);
}

// Where a fault of this kind can happen, in the middle of what the last rank (files: rank 0) does.
std::optional<Fault> fault_of(FaultKind kind, const std::vector<PassedPoint>& points, int ranks) {
  std::vector<FaultPoint> found;
  for (const PassedPoint& passed : points) {
    const bool link = passed.what.starts_with("link ");
    const bool floats = passed.what.find(" F32 ") != std::string::npos;
    const bool fits =
        std::find(passed.kinds.begin(), passed.kinds.end(), kind) != passed.kinds.end();
    if (kind == FaultKind::dtype ? passed.point.rank == ranks - 1 && floats && fits
                                 : passed.point.rank == 0 && link) {
      found.push_back(passed.point);
    }
  }
  if (found.empty()) return std::nullopt;
  Fault fault{damages_shard(kind) ? found.back() : found[found.size() / 2], kind};
  if (damages_shard(kind)) fault.point.moment = Moment::after;
  return fault;
}

Verdict verdict_of(const PlannedFault& planned) {
  Verdict verdict;
  verdict.check = planned.check;
  verdict.subject = planned.subject;
  verdict.sentence = planned.sentence;
  return verdict;
}

Verdict judged(const PlannedFault& planned, const FaultScenario& scenario,
               const FaultResult& result) {
  Verdict verdict = verdict_of(planned);
  const bool pass = result.pass && result.outcome == planned.expected;
  verdict.outcome = pass ? Outcome::pass : Outcome::fail;
  const FaultRunEnd& first = result.runs.front();
  if (pass) {
    verdict.notes.push_back(fmt::format(
        "{}: {}{}; went on from {} to the bits of the run without it", text(scenario.faults),
        name(result.outcome), first.error_kind.empty() ? "" : " (" + first.error_kind + ")",
        result.runs.back().from.empty() ? "the start" : result.runs.back().from));
  } else {
    verdict.reason = result.why.empty() ? fmt::format("expected {}, found {}",
                                                      name(planned.expected), name(result.outcome))
                                        : result.why;
    verdict.replay = fault_replay_line(scenario);
  }
  return verdict;
}

}  // namespace

std::vector<PlannedFault> plan_faults(const Corpus& corpus) {
  if (!corpus.faults) return {};
  const std::string where = fmt::format("{}: {}", corpus.name, corpus.config.run.layout);
  const int ranks = parse_layout(corpus.config.run.layout).world();
  std::vector<PlannedFault> out;
  if (ranks > 1) {
    out.push_back({"fault dtype", fmt::format("{}, rank {} names another dtype", where, ranks - 1),
                   "ranks find it before data moves, and name the rank; what recovers has the bits",
                   FaultKind::dtype, FaultOutcome::detected});
    out.push_back({"fault commit", where + ", rank 0 dies before the manifest has its name",
                   "the others name it; the checkpoint before serves, and the end has the bits",
                   FaultKind::kill, FaultOutcome::detected});
  }
  out.push_back({"fault shard", where + ", a byte of the newest checkpoint flips",
                 "the checkpoint is refused by entry; the one before serves, and the end has the "
                 "bits",
                 FaultKind::corrupt_shard, FaultOutcome::refused});
  return out;
}

std::vector<Verdict> judge_faults(const Corpus& corpus, const std::atomic<bool>* stop) {
  std::vector<Verdict> verdicts;
  const auto planned = plan_faults(corpus);
  if (planned.empty()) return verdicts;
  const Config config = fault_case(corpus);
  const int ranks = parse_layout(config.run.layout).world();
  constexpr double hang_seconds = 30;
  FaultRunner runner(hang_seconds);
  const auto points = runner.discover(config);
  for (const PlannedFault& plan : planned) {
    if (stop != nullptr && stop->load()) return verdicts;
    const auto fault = fault_of(plan.kind, points, ranks);
    if (!fault) {
      Verdict verdict = verdict_of(plan);
      verdict.reason = "the run passes no point where it could happen";
      verdicts.push_back(verdict);
      continue;
    }
    const FaultScenario scenario{config, {*fault}, "", ""};
    verdicts.push_back(judged(plan, scenario, runner.run(scenario)));
  }
  return verdicts;
}

}  // namespace shardproof
