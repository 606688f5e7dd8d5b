// subject layout: one step from the same weights, held to a float64 leg beside the reference's own
// error.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "invariants/compare_errors.h"
#include "invariants/ruling.h"
#include "invariants/subject_checks.h"
#include "invariants/subject_step.h"
#include "invariants/tensor_distance.h"
#include "invariants/tensor_grid.h"

namespace shardproof {
namespace {

constexpr std::size_t benign_runs = 3;  // without a float64 leg

// Beyond this share of all gradients a reference's error is none: it does not say what rounding is.
// In units of its dtype's u, and never more than a share that hides nothing.
double most_reference_error(double unit) {
  return std::min(0.05, 0x1p12 * unit);
}

Difference address_of(std::int64_t step, const std::string& phase) {
  Difference out;
  out.step = step;
  out.phase = phase;
  return out;
}

std::string first_word_missing(const Trace& trace, std::int64_t step) {
  if (trace.ranks.empty() || trace.step_numbers().empty()) return "no step was traced";
  if (static_cast<int>(trace.ranks.size()) != trace.world()) {
    return fmt::format("{} of {} ranks wrote a trace", trace.ranks.size(), trace.world());
  }
  for (const RankTrace& rank : trace.ranks) {
    if (rank.find_step(step) == nullptr) {
      return fmt::format("rank {} has no record of step {}", rank.rank, step);
    }
  }
  return "";
}

bool lists_samples(const Trace& trace, std::int64_t step) {
  return std::any_of(trace.ranks.begin(), trace.ranks.end(), [&](const RankTrace& rank) {
    const StepRecord* record = rank.find_step(step);
    return record != nullptr && !record->samples.empty();
  });
}

// One SameStart at its first step.
class StartJudge {
 public:
  explicit StartJudge(const SameStart& start)
      : start_(start), truth_(*start.truth), found_(*start.found) {}

  Ruling judge() {
    if (Ruling out = judge_legs(); out.outcome != Outcome::pass) return out;
    if (Ruling out = judge_premises(found_, "the layout"); out.outcome != Outcome::pass) {
      return truth_is_odd(out) ? rule_open(fmt::format(
                                     "the float64 leg starts from other weights than the reference "
                                     "({} before step {}): build and initialise first, then "
                                     "convert to float64",
                                     out.difference->tensor, step_))
                               : out;
    }
    for (const Trace* each : start_.references) {
      const Ruling out = judge_premises(*each, "a reference");
      if (out.outcome == Outcome::pass) continue;
      return rule_open(fmt::format("a reference is no reference: {}", out.reason));
    }
    errors_ = compare_errors(truth_, start_.references, found_, step_, "grad",
                             ErrorRule{few_elements, 1, ""});
    if (Ruling out = judge_gradients(); out.outcome != Outcome::pass) return out;
    if (Ruling out = judge_scalars(); out.outcome != Outcome::pass) return out;
    const StepSides sides{truth_, start_.references, found_, step_};
    if (Ruling out = judge_moments(sides, made_); out.outcome != Outcome::pass) return out;
    if (Ruling out = judge_updates(sides, errors_.noise, made_); out.outcome != Outcome::pass) {
      return out;
    }
    return judge_later(sides);
  }

  const StepMade& made() const { return made_; }
  const ErrorComparison& errors() const { return errors_; }
  bool has_float64() const { return float64_; }
  bool has_samples() const { return samples_; }

 private:
  Ruling judge_legs() {
    const std::vector<std::int64_t> steps = truth_.step_numbers(), judged = found_.step_numbers();
    if (steps.empty()) return rule_open("no step of the leg to compare with was traced");
    step_ = steps.front();
    if (!judged.empty() && judged.front() != step_) {
      Difference at = address_of(step_, "step");
      at.left = fmt::format("begins at step {}", step_);
      at.right = fmt::format("begins at step {}", judged.front());
      return rule_fail("the legs do not begin at the same step", at);
    }
    std::string why = first_word_missing(truth_, step_);
    if (!why.empty()) return rule_open("the leg to compare with: " + why);
    why = first_word_missing(found_, step_);
    if (!why.empty()) return rule_open("the judged leg: " + why);
    for (const Trace* each : start_.references) {
      why = each == nullptr ? "it is missing" : first_word_missing(*each, step_);
      if (!why.empty()) return rule_open("a reference: " + why);
    }
    if (Ruling out = pass_skipped(); out.outcome != Outcome::pass) return out;
    return judge_precision();
  }

  // A loss scaler may skip steps at the start: on to the first that was done.
  Ruling pass_skipped() {
    const auto skips = [](const Trace& trace, std::int64_t step) {
      const StepRecord* record = trace.ranks.front().find_step(step);
      return record != nullptr && record->skipped;
    };
    const Trace& plain = start_.references.empty() ? truth_ : *start_.references.front();
    for (const std::int64_t step : found_.step_numbers()) {
      step_ = step;
      const bool want = skips(plain, step), have = skips(found_, step);
      if (want != have) {
        Difference at = address_of(step, "skipped");
        at.left = want ? "true" : "false";
        at.right = have ? "true" : "false";
        return rule_fail(fmt::format("step {} is skipped on one side alone", step), at);
      }
      if (have != skips(truth_, step)) {
        return rule_open(
            fmt::format("step {} is skipped, but not in the leg to compare with: its "
                        "next step starts from other weights",
                        step));
      }
      if (!have) break;
    }
    for (const Trace* each : {&truth_, &found_, &plain}) {
      const std::string why = first_word_missing(*each, step_);
      if (!why.empty()) return rule_open(why);
    }
    return skips(found_, step_) ? rule_open("every step is skipped") : Ruling{};
  }

  // Whether the truth is more exact than what is judged, and whether references are enough.
  Ruling judge_precision() {
    const auto dtype_of = [&](const Trace& trace) {
      const BytesMap bytes = bytes_at(trace, step_, "grad");
      return bytes.empty() ? std::optional<Dtype>() : bytes.begin()->second.front().entry.dtype;
    };
    const auto want = dtype_of(truth_), have = dtype_of(found_);
    if (!want || !have) {
      return rule_open(fmt::format("no gradient of step {} was captured on {} side", step_,
                                   want ? "the judged" : "the expected"));
    }
    float64_ = *want == Dtype::f64 && *have != Dtype::f64;
    const std::size_t needed = float64_ ? 1 : benign_runs;
    if (start_.references.size() >= needed) return {};
    return rule_open(float64_ ? "there is no reference to say how far its precision is from float64"
                              : fmt::format("no float64 leg, and {} of {} benign runs (reversed "
                                            "samples, other accumulation, repeat)",
                                            start_.references.size(), benign_runs));
  }

  Ruling judge_premises(const Trace& trace, const char* who) {
    const std::vector<std::int64_t> want = world_samples(truth_, step_),
                                    have = world_samples(trace, step_);
    if (lists_samples(truth_, step_) != lists_samples(trace, step_)) {
      return rule_open(fmt::format("one leg of two lists the samples of step {}", step_));
    }
    samples_ = samples_ && lists_samples(trace, step_);
    if (want != have) {
      Difference at = address_of(step_, "samples");
      at.left = fmt::format("[{}]", fmt::join(want, ","));
      at.right = fmt::format("[{}]", fmt::join(have, ","));
      return rule_fail(fmt::format("step {} of {} has other samples", step_, who), at);
    }
    return judge_weights(trace, who);
  }

  // Equal as values: a float64 leg holds float64 copies.
  Ruling judge_weights(const Trace& trace, const char* who) {
    const BytesMap want = bytes_at(truth_, step_ - 1, "param"),
                   have = bytes_at(trace, step_ - 1, "param");
    if (want.empty() || have.empty()) {
      return rule_open(fmt::format("the weights before step {} were not captured", step_));
    }
    std::set<std::string> names;
    for (const BytesMap* map : {&want, &have}) {
      for (const auto& [name, entries] : *map) names.insert(name);
    }
    for (const std::string& name : names) {
      Difference at = address_of(step_ - 1, "param");
      at.tensor = name;
      const auto left = want.find(name), right = have.find(name);
      if (left == want.end() || right == have.end()) {
        at.left = left == want.end() ? "nothing" : "a tensor";
        at.right = right == have.end() ? "nothing" : "a tensor";
        return rule_fail(fmt::format("{} is a parameter of one leg alone", name), at);
      }
      Ruling out = judge_weight(left->second, right->second, at, who);
      if (out.outcome != Outcome::pass) return out;
    }
    return {};
  }

  // Whether the found leg starts where a reference does, and the float64 leg elsewhere.
  bool truth_is_odd(const Ruling& ruling) const {
    if (!float64_ || !ruling.difference || ruling.difference->phase != "param") return false;
    const Trace& plain = *start_.references.front();
    if (!first_word_missing(plain, step_).empty()) return false;
    const TensorComparison same = compare_tensors(plain, found_, step_ - 1, "param");
    return same.compared > 0 && !same.first && same.incomparable.empty();
  }

  Ruling judge_weight(const std::vector<HeldBytes>& want, const std::vector<HeldBytes>& have,
                      Difference at, const char* who) {
    const std::vector<HeldBytes>* sides[] = {&have};
    const Distances distances = distances_from(want, sides);
    const TensorDistance& off = distances.sides.front();
    if (off.problem.empty() && off.norm == 0) return {};
    const Dtype dtype = have.front().entry.dtype;
    if (!off.problem.empty()) {
      at.left =
          fmt::format("shape [{}], whole", fmt::join(want.front().entry.place.global_shape, ","));
      at.right = off.problem;
    } else {
      tell_farthest(at, off, want, have);
      at.times = roundings_apart(dtype, off.expected, off.found);
      const bool rounded = off.norm <= 2 * roundoff(dtype) * distances.norm;
      if (want.front().entry.dtype == Dtype::f64 && rounded) {
        return rule_open(fmt::format(
            "{} before step {} is rounded in one leg: the float64 leg must start from the values "
            "of the other precision, converted",
            at.tensor, step_));
      }
    }
    return rule_fail(fmt::format("the weights of {} before step {} are not the same", who, step_),
                     at);
  }

  Ruling judge_gradients() {
    const double bound = native_gradients().bound;
    if (!errors_.incomparable.empty()) return rule_open(errors_.incomparable);
    const double most = most_reference_error(errors_.unit);
    if (errors_.share > most || errors_.reference > 0.05 * errors_.norm) {
      return rule_open(
          fmt::format("the references are {:.2g} of all gradients off, and at most {:.2g} is "
                      "rounding in their dtype: they say nothing of it (computing in less than the "
                      "gradients' dtype is judged in full precision)",
                      std::max(errors_.share, errors_.reference / errors_.norm), most));
    }
    if (errors_.ratio > bound) {
      return rule_fail(
          std::isfinite(errors_.ratio)
              ? fmt::format("{} of step {} is {:.3g} x as far off as the reference; at "
                            "most {:g} is rounding",
                            errors_.worst.tensor, step_, errors_.ratio, bound)
              : fmt::format("the gradient {} of step {} has no distance", errors_.worst.tensor,
                            step_),
          errors_.worst);
    }
    return errors_.tensors == 0 ? rule_open("no gradient was captured") : Ruling{};
  }

  Ruling judge_scalars() {
    const double bound = native_gradients().bound;
    // What |gradients| may be off follows from what each may be.
    const double gradients = errors_.norm > 0 ? bound * errors_.allowed / errors_.norm : 0;
    Ruling out = judge_scalar("loss", &StepRecord::loss, 0);
    if (out.outcome != Outcome::pass) return out;
    return judge_scalar("grad_norm", &StepRecord::grad_norm, gradients);
  }

  Ruling judge_scalar(const char* what, double StepRecord::*member, double relative) {
    const double want = truth_.ranks.front().find_step(step_)->*member;
    if (!std::isfinite(want)) {
      return rule_open(fmt::format("the {} of the leg to compare with is {}", what, want));
    }
    const double unit = subject_scalar(errors_.unit).bound * std::abs(want);
    double reference = 0;
    for (const Trace* each : start_.references) {
      for (const RankTrace& rank : each->ranks) {
        reference = std::max(reference, std::abs(rank.find_step(step_)->*member - want));
      }
    }
    reference = std::min(reference, most_reference_error(errors_.unit) * std::abs(want));
    const double allowed =
        std::max(unit, native_gradients().bound * reference) + relative * std::abs(want);
    for (const RankTrace& rank : found_.ranks) {
      const double have = rank.find_step(step_)->*member;
      if (std::abs(have - want) <= allowed) continue;  // false for a NaN
      Difference at = address_of(step_, what);
      at.rank = rank.rank;
      at.left = fmt::format("{:.12g} ({}) within {:.2g}", want, scalar_bits(want), allowed);
      at.right = fmt::format("{:.12g} ({})", have, scalar_bits(have));
      if (allowed > 0 && std::isfinite(have)) at.times = std::abs(have - want) / allowed;
      return rule_fail(
          fmt::format("the {} of step {} on rank {} is beyond rounding: it is not that of "
                      "the whole batch and model",
                      what, step_, rank.rank),
          at);
    }
    return {};
  }

  const SameStart& start_;
  const Trace& truth_;
  const Trace& found_;
  std::int64_t step_ = 0;
  bool float64_ = false;
  bool samples_ = true;
  ErrorComparison errors_;
  StepMade made_;
};

void add_notes(Verdict& verdict, const std::vector<StartJudge>& judged) {
  const ErrorComparison* worst = nullptr;
  std::int64_t tensors = 0, moments = 0, updates = 0;
  bool coarse = false, benign = false, samples = true;
  for (const StartJudge& each : judged) {
    const ErrorComparison& errors = each.errors();
    if (worst == nullptr || errors.ratio > worst->ratio) worst = &errors;
    tensors += errors.tensors;
    moments += each.made().moments;
    updates += each.made().updates;
    coarse = coarse || errors.unit > 0x1p-12;
    benign = benign || !each.has_float64();
    samples = samples && each.has_samples();
  }
  const auto note = [&](std::string text) { verdict.notes.push_back(std::move(text)); };
  note(fmt::format("worst ratio {:.2f} of at most {:g}: step {}, {}", worst->ratio,
                   native_gradients().bound, worst->worst.step, worst->worst.tensor));
  note(fmt::format("{} gradients compared from {} starts", tensors, judged.size()));
  note(fmt::format("{} moments and {} updates of parameters compared", moments, updates));
  if (benign) note("no float64 leg: the error allowed is the spread of the benign runs");
  if (coarse) note("bf16: a second, weaker tier (u = 2^-9); parity is judged in fp32");
  if (!samples) note("samples were not traced as lists: that they are the same is not known");
}

}  // namespace

Verdict check_subject_layout(const std::vector<SameStart>& starts) {
  Verdict verdict = open_verdict(
      "layout",
      fmt::format(
          "from the same weights and samples each gradient's error against float64 is at "
          "most {:g} x the reference's own, or u |gradient| (u = 2^-24 fp32, 2^-9 bf16); "
          "loss and gradient norm of every rank are those of the whole batch and model; so are "
          "the step's moments and updates; learning rates are equal, later losses near",
          native_gradients().bound));
  if (starts.empty()) return undecided(verdict, "no legs start from the same weights");
  std::vector<StartJudge> judged;
  std::string open_reason;
  for (const SameStart& start : starts) {
    if (start.truth == nullptr || start.found == nullptr) {
      if (open_reason.empty()) open_reason = "a leg is missing";
      continue;
    }
    StartJudge judge(start);
    const Ruling ruling = judge.judge();
    if (ruling.outcome == Outcome::fail) return fails(verdict, ruling.reason, ruling.difference);
    if (ruling.outcome == Outcome::pass) {
      judged.push_back(std::move(judge));
    } else if (open_reason.empty()) {
      open_reason = ruling.reason;
    }
  }
  if (!judged.empty()) add_notes(verdict, judged);
  return open_reason.empty() ? passes(verdict) : undecided(verdict, open_reason);
}

}  // namespace shardproof
