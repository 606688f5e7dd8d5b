// subject_checks: those that stand on the checks of our own traces, and what they add.
#include "invariants/subject_checks.h"

#include <algorithm>

#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/subject_state.h"
#include "invariants/tensor_grid.h"

namespace shardproof {
namespace {

std::string code_of(const Trace& trace) {
  if (trace.ranks.empty()) return "";
  const Json& run = trace.ranks.front().run;
  return run.is_object() && run.contains("code") ? run["code"].dump() : "";
}

// Where both sides captured no moment at all, their parameters stand for them.
void note_moments(Verdict& verdict, const Trace& expected, const Trace& found) {
  if (!tensor_steps(expected, "moment").empty() || !tensor_steps(found, "moment").empty()) return;
  verdict.notes.push_back("no moment was captured: what is lost of them shows in the parameters");
}

// Steps from `from` on of which both captured parameters.
std::int64_t captured_steps(const Trace& expected, const Trace& found, std::int64_t from) {
  const std::vector<std::int64_t> left = tensor_steps(expected, "param"),
                                  right = tensor_steps(found, "param");
  return std::count_if(left.begin(), left.end(), [&](std::int64_t step) {
    return step >= from && std::binary_search(right.begin(), right.end(), step);
  });
}

const Json* exit_event(const Trace& trace) {
  for (auto event = trace.harness.rbegin(); event != trace.harness.rend(); ++event) {
    if (event->is_object() && event->value("kind", Json()) == "exit") return &*event;
  }
  return nullptr;
}

std::optional<std::int64_t> integer_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace

Verdict check_subject_bitwise(const Trace& reference, const Trace& found) {
  Verdict verdict = check_layout(reference, found);
  note_moments(verdict, reference, found);
  return verdict;
}

Verdict check_subject_live(const Trace& trace, std::int64_t steps,
                           const std::vector<const Trace*>& others) {
  Verdict verdict = check_live(trace, steps);
  verdict.sentence +=
      "; loss, gradient norm and learning rate are the same on all ranks; what a gradient pushes "
      "moves, and stays finite";
  if (verdict.outcome == Outcome::fail || trace.ranks.empty()) return verdict;
  if (const auto difference = rank_difference(trace)) {
    return fails(verdict,
                 fmt::format("ranks {} and {} report another {} at step {}: it is not global",
                             trace.ranks.front().rank, difference->rank, difference->phase,
                             difference->step),
                 difference);
  }
  for (const Trace* other : others) {
    if (other == nullptr || other->ranks.empty() || code_of(*other) == code_of(trace)) continue;
    return fails(verdict, fmt::format("the legs ran different programs ({} and {})",
                                      code_of(*other), code_of(trace)));
  }
  Ruling ruling = judge_records(trace);
  if (ruling.outcome == Outcome::pass) ruling = judge_state(trace, verdict.notes);
  if (ruling.outcome == Outcome::fail) return fails(verdict, ruling.reason, ruling.difference);
  if (code_of(trace).empty()) {
    verdict.notes.push_back("the trace does not say which program ran (\"code\")");
  }
  return verdict;
}

Verdict check_subject_resume(const Trace& uncut, const Trace& resumed, std::int64_t from) {
  Verdict verdict = check_resume(uncut, resumed, from);
  note_moments(verdict, uncut, resumed);
  if (verdict.outcome != Outcome::pass) return verdict;
  const std::int64_t captured = captured_steps(uncut, resumed, from);
  if (captured >= 2) return verdict;
  return undecided(verdict, fmt::format("the parameters of {} steps after the resume were captured "
                                        "on both sides; lost moments show only in the second",
                                        captured));
}

Verdict check_subject_data(const Trace& trace, const Trace* before) {
  Verdict verdict = check_data(trace, before);
  if (const auto size = integer_fact(trace, "/data/size"); size && *size < 1) {
    return fails(verdict, fmt::format("the run says an epoch has {} samples (\"data\": "
                                      "{{\"size\"}}): it must be 1 or more",
                                      *size));
  }
  if (!integer_fact(trace, "/data/size") && verdict.outcome == Outcome::pass) {
    verdict.notes.push_back(
        "the trace does not say how many samples an epoch has (\"data\": {\"size\"}): no sample "
        "was "
        "taken twice, and that an epoch covers all is not known");
  }
  return verdict;
}

Verdict check_subject_kill(const Trace& trace, int rank, std::int64_t step,
                           const std::string& phase) {
  Verdict verdict = open_verdict(
      "kill", fmt::format("rank {} dies or stops on entering {} of step {}: the job ends by itself "
                          "before its deadline, with an error, and leaves no process",
                          rank, phase, step));
  const Json* exit = exit_event(trace);
  if (exit == nullptr) return undecided(verdict, "the starter wrote no exit of the job");
  const auto victim = std::find_if(trace.ranks.begin(), trace.ranks.end(),
                                   [&](const RankTrace& each) { return each.rank == rank; });
  if (victim == trace.ranks.end() || !victim->last_at) {
    return undecided(verdict, fmt::format("rank {} traced no phase", rank));
  }
  const auto& at = *victim->last_at;
  const bool there = at.step == step && at.phase == phase;
  if (!there && victim->ended) {
    return undecided(verdict, fmt::format("rank {} never entered {} of step {}: nothing was killed",
                                          rank, phase, step));
  }
  if (!there) {
    return fails(verdict, fmt::format("the last line of rank {} is step {} {}, not step {} {}",
                                      rank, at.step, at.phase, step, phase));
  }
  for (const RankTrace& each : trace.ranks) {
    if (!each.ended) continue;
    return fails(verdict,
                 fmt::format("rank {} wrote its end although rank {} was to die", each.rank, rank));
  }
  if (exit->value("timed_out", Json()) == true) {
    return fails(verdict, fmt::format("the job hung: it was still there at its deadline, after {} "
                                      "s, and was killed",
                                      exit->value("seconds", Json()).dump()));
  }
  const auto code = integer_of(*exit, "exit_code"), left = integer_of(*exit, "left");
  if (!code || !left) return undecided(verdict, "the exit has no \"exit_code\" or no \"left\"");
  if (*code == 0) return fails(verdict, "the job ended with 0, as if nothing had happened");
  if (*left != 0) {
    return fails(verdict, fmt::format("{} processes of the job were left behind", *left));
  }
  verdict.notes.push_back(
      fmt::format("ended with {} after {} s; the last line of rank {} names "
                  "the place",
                  *code, exit->value("seconds", Json()).dump(), rank));
  return passes(verdict);
}

}  // namespace shardproof
