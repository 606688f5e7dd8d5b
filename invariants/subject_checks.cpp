// subject_checks: those that are little more than the checks of our own traces.
#include "invariants/subject_checks.h"

#include "invariants/ruling.h"

namespace shardproof {

Verdict check_subject_layout(const std::vector<SameStart>& starts) {
  Verdict verdict = open_verdict("layout", "each gradient is as close to the truth as rounding");
  if (starts.empty()) return undecided(verdict, "no legs start from the same weights");
  for (const SameStart& start : starts) {
    if (start.truth == nullptr || start.found == nullptr) {
      return undecided(verdict, "a leg is missing");
    }
    const Verdict each = check_native_layout(*start.truth, start.references, *start.found);
    verdict.outcome = each.outcome;
    verdict.reason = each.reason;
    verdict.difference = each.difference;
    verdict.notes.insert(verdict.notes.end(), each.notes.begin(), each.notes.end());
    if (each.outcome != Outcome::pass) return verdict;
  }
  return verdict;
}

Verdict check_subject_bitwise(const Trace& reference, const Trace& found) {
  return check_layout(reference, found);
}

Verdict check_subject_cover(const Trace& trace, const std::vector<std::int64_t>&) {
  return check_cover(trace);
}

Verdict check_subject_live(const Trace& trace, std::int64_t steps,
                           const std::vector<const Trace*>&) {
  return check_live(trace, steps);
}

Verdict check_subject_resume(const Trace& uncut, const Trace& resumed, std::int64_t from) {
  return check_resume(uncut, resumed, from);
}

Verdict check_subject_data(const Trace& trace, const Trace* before) {
  return check_data(trace, before);
}

Verdict check_subject_kill(const Trace& trace, int rank, std::int64_t step,
                           const std::string& phase) {
  return check_kill(trace, rank, step, phase, 0);
}

}  // namespace shardproof
