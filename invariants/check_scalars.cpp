// scalars: what two runs logged of themselves, step by step; all there is of a program without an
// emitter.
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

constexpr const char* keys[] = {"loss", "grad_norm", "lr"};

struct Compared {
  std::map<std::string, std::int64_t> steps;  // key -> steps at which both sides have it
  std::set<std::string> one_sided;            // at some step
  std::optional<Difference> first;
};

Difference missing_step(std::int64_t step, bool expected, bool found) {
  Difference out;
  out.step = step;
  out.phase = "step";
  out.left = expected ? "done" : "missing";
  out.right = found ? "done" : "missing";
  return out;
}

Compared compare_all(const Trace& expected, const Trace& found) {
  Compared out;
  std::set<std::int64_t> steps;
  for (const Trace* side : {&expected, &found}) {
    const std::vector<std::int64_t> numbers = side->step_numbers();
    steps.insert(numbers.begin(), numbers.end());
  }
  for (const std::int64_t step : steps) {
    const StepRecord* want = expected.ranks.front().find_step(step);
    for (const RankTrace& rank : found.ranks) {
      const StepRecord* have = rank.find_step(step);
      if (want == nullptr || have == nullptr) {
        out.first = missing_step(step, want != nullptr, have != nullptr);
      } else {
        out.first = compare_scalars(*want, *have);
      }
      if (out.first) {
        out.first->rank = rank.rank;
        return out;
      }
      for (const char* key : keys) {
        const bool left = !is_missing(*want, key), right = !is_missing(*have, key);
        if (left && right) ++out.steps[key];
        if (left != right) out.one_sided.insert(key);
      }
    }
  }
  return out;
}

void note_counts(Verdict& verdict, const Compared& compared) {
  std::vector<std::string> equal, absent;
  for (const char* key : keys) {
    const auto count = compared.steps.find(key);
    if (count != compared.steps.end()) {
      equal.push_back(fmt::format("{} ({} steps)", key, count->second));
    } else if (!compared.one_sided.contains(key)) {
      absent.push_back(key);
    }
  }
  if (!equal.empty()) verdict.notes.push_back(fmt::format("equal: {}", fmt::join(equal, ", ")));
  if (!absent.empty()) {
    verdict.notes.push_back(fmt::format("on neither side: {}", fmt::join(absent, ", ")));
  }
}

// "loss 4 decimals, lr float32" of imports.
void note_digits(Verdict& verdict, const Trace& trace) {
  std::vector<std::string> digits;
  for (const char* key : keys) {
    const auto found = text_fact(trace, fmt::format("/scalars/{}/digits", key).c_str());
    if (found) digits.push_back(fmt::format("{} {}", key, *found));
  }
  if (!digits.empty())
    verdict.notes.push_back(fmt::format("as logged: {}", fmt::join(digits, ", ")));
}

}  // namespace

Verdict check_scalars(const Trace& reference, const Trace& trace) {
  Verdict verdict = open_verdict("scalars",
                                 "loss, gradient norm and learning rate of every step are the same "
                                 "on both sides; nothing is said about tensors");
  const std::string why = comparison_obstacle(reference, trace);
  if (!why.empty()) return undecided(verdict, why);
  const std::string import = imported_text(reference, trace);
  verdict.notes.push_back(import.empty() ? "tensors: not verified (scalars alone)" : import);
  const Compared compared = compare_all(reference, trace);
  note_digits(verdict, reference);
  if (compared.first) {
    return fails(verdict,
                 fmt::format("the runs differ first in {} at step {}", compared.first->phase,
                             compared.first->step),
                 compared.first);
  }
  note_counts(verdict, compared);
  if (!compared.one_sided.empty()) {
    return undecided(verdict, fmt::format("only one side has {} (at every step or some)",
                                          fmt::join(compared.one_sided, ", ")));
  }
  if (!compared.steps.contains("loss")) return undecided(verdict, "no loss was traced");
  return passes(verdict);
}

}  // namespace shardproof
