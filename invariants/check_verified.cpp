// checkpoint: another process verified what this run saved, and its starter wrote down the result.
#include "invariants/ruling.h"
#include "invariants/trace_checks.h"

namespace shardproof {

Verdict check_verified(const Trace& trace, const std::string& id) {
  Verdict verdict = open_verdict(
      "checkpoint",
      fmt::format("checkpoint {} is whole: another process verifies its manifest, files "
                  "and every block digest",
                  id));
  bool saved = false;
  for (const RankTrace& rank : trace.ranks) {
    for (const CheckpointRecord& record : rank.checkpoints) {
      saved = saved || (record.done && record.path.ends_with(id));
    }
  }
  if (!saved) return undecided(verdict, fmt::format("the run traced no finished save of {}", id));
  for (const Json& event : trace.harness) {
    if (event.value("kind", "") != "verify" || event.value("id", "") != id) continue;
    if (event.value("exit_code", -1) == 0) return passes(verdict);
    const std::string output = event.value("output", "");
    return fails(verdict,
                 fmt::format("verify ended with exit code {}: {}", event.value("exit_code", -1),
                             output.substr(0, output.find('\n'))));
  }
  return undecided(verdict, fmt::format("nobody verified {}", id));
}

}  // namespace shardproof
