// kill: a rank that dies is named in time, its last line says where, and nobody pretends to have
// ended. That nothing hangs is the launcher's deadline, which it writes down as well.
#include "invariants/ruling.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

const Json* find_event(const Trace& trace, const char* kind) {
  for (const Json& event : trace.harness) {
    if (event.is_object() && event.value("kind", "") == kind) return &event;
  }
  return nullptr;
}

}  // namespace

Verdict check_kill(const Trace& trace, int rank, std::int64_t step, const std::string& phase,
                   double deadline_seconds) {
  Verdict verdict = open_verdict(
      "kill",
      fmt::format("rank {} dies on entering {} of step {}; it is named within {} s, nothing "
                  "hangs and no rank ends as if nothing had happened",
                  rank, phase, step, deadline_seconds));
  if (trace.harness.empty()) return undecided(verdict, "the starter wrote no harness.jsonl");
  const RankTrace* victim = nullptr;
  for (const RankTrace& each : trace.ranks) {
    if (each.rank == rank) victim = &each;
    if (each.ended) {
      return fails(verdict, fmt::format("rank {} wrote its end although rank {} was to die",
                                        each.rank, rank));
    }
  }
  if (victim == nullptr || !victim->last_at) {
    return undecided(verdict, fmt::format("rank {} traced no phase", rank));
  }
  if (victim->last_at->step != step || victim->last_at->phase != phase) {
    return fails(verdict, fmt::format("the last line of rank {} is step {} {}", rank,
                                      victim->last_at->step, victim->last_at->phase));
  }
  if (find_event(trace, "deadline") != nullptr) {
    return fails(verdict, "the launch ran into its deadline: something hung");
  }
  const Json* death = find_event(trace, "death");
  if (death == nullptr) return fails(verdict, "no death was named");
  if (death->value("rank", -1) != rank) {
    return fails(verdict, fmt::format("rank {} was named", death->value("rank", -1)));
  }
  // Since the rank's last sign of life, where the starter knows it; else since the launch.
  const double seconds = death->value("silent_seconds", death->value("seconds", -1.0));
  if (!(seconds >= 0 && seconds <= deadline_seconds)) {
    return fails(verdict, fmt::format("the death was named after {} s", seconds));
  }
  if (!death->contains("step") || !death->contains("phase")) {
    return fails(verdict, "the death was named without its step and phase");
  }
  const std::string place =
      fmt::format("{} {}", death->value("step", step), death->value("phase", phase));
  if (place != fmt::format("{} {}", step, phase)) {
    return fails(verdict, fmt::format("the death was placed in step {}", place));
  }
  return passes(verdict);
}

}  // namespace shardproof
