// subject_step: see subject_step.h.
#include "invariants/subject_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "invariants/compare.h"
#include "invariants/compare_errors.h"
#include "invariants/subject_update.h"
#include "invariants/tensor_distance.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

// Steps behind the judged one in which equal weights cannot have drifted apart by rounding.
constexpr std::int64_t near_steps = 8;

bool all_hold(const StepSides& sides, std::int64_t step, const char* what) {
  const auto held = [&](const Trace& trace) {
    return std::any_of(trace.files.begin(), trace.files.end(), [&](const TensorFileRef& file) {
      return file.step == step && file.what == what;
    });
  };
  return held(sides.truth) && held(sides.found) &&
         std::all_of(sides.references.begin(), sides.references.end(),
                     [&](const Trace* each) { return held(*each); });
}

// The parameters of one side around a step.
struct Around {
  BytesMap before, after;

  Around(const Trace& trace, std::int64_t step)
      : before(bytes_at(trace, step - 1, "param")), after(bytes_at(trace, step, "param")) {}
  bool has(const std::string& name) const { return before.contains(name) && after.contains(name); }
  UpdateSide of(const std::string& name) const { return {before.at(name), after.at(name)}; }
};

class UpdateJudge {
 public:
  explicit UpdateJudge(const StepSides& sides)
      : step_(sides.step), truth_(sides.truth, step_), found_(sides.found, step_) {
    for (const Trace* each : sides.references) references_.emplace_back(*each, step_);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entries] : truth_.after) {
      const bool all = std::all_of(references_.begin(), references_.end(),
                                   [&](const Around& each) { return each.has(name); });
      if (all && truth_.has(name) && found_.has(name)) out.push_back(name);
    }
    return out;
  }

  Ruling judge(const std::string& name) const {
    std::vector<UpdateSide> sides = {found_.of(name)};
    for (const Around& each : references_) sides.push_back(each.of(name));
    const UpdateDistances off = update_distances(truth_.of(name), sides);
    Difference at;
    at.step = step_;
    at.phase = "update";
    at.tensor = name;
    double reference = 0;
    for (std::size_t i = 1; i < off.problems.size(); ++i) {
      const bool truth = i == off.sides.size();
      if (!truth) reference = std::max(reference, off.sides[i]);
      if (off.problems[i].empty() && std::isfinite(truth ? off.norm : off.sides[i])) continue;
      return rule_open(
          fmt::format("{} after step {} of a leg to compare with is not whole and "
                      "finite {}",
                      name, step_, off.problems[i]));
    }
    if (!off.problems.front().empty()) {
      at.left = "the whole parameter";
      at.right = off.problems.front();
      return rule_fail(fmt::format("{} has no update at step {}", name, step_), at);
    }
    const Dtype dtype = sides[1].before.front().entry.dtype;
    const double allowed =
        subject_update().bound *
        std::max({reference, roundoff(dtype) * off.param, subject_update_share * off.norm});
    if (off.sides.front() <= allowed) return {};
    at.index = index_of(truth_.before.at(name).front().entry.place.global_shape, off.farthest);
    at.left = fmt::format("{:.9g}; the update of size {:.3g} within {:.2g}", off.expected, off.norm,
                          allowed);
    at.right = fmt::format("{:.9g}; off by {:.3g}", off.found, off.sides.front());
    if (allowed > 0 && std::isfinite(off.sides.front())) at.times = off.sides.front() / allowed;
    return rule_fail(fmt::format("step {} moves {} otherwise, though its gradient is right: {:.2g} "
                                 "off an update of {:.2g}, at most {:.2g} is allowed",
                                 step_, name, off.sides.front(), off.norm, allowed),
                     at);
  }

 private:
  std::int64_t step_;
  Around truth_, found_;
  std::vector<Around> references_;
};

Difference scalar_address(std::int64_t step, const char* phase, int rank, std::string left,
                          std::string right) {
  Difference out;
  out.step = step;
  out.phase = phase;
  out.rank = rank;
  out.left = std::move(left);
  out.right = std::move(right);
  return out;
}

// What must be equal at any step.
Ruling judge_equal(const StepRecord& want, const StepRecord& have, int rank) {
  const auto word = [](bool skipped) { return skipped ? "skipped" : "done"; };
  if (want.skipped != have.skipped) {
    return rule_fail(
        fmt::format("step {} is skipped on one side alone", want.step),
        scalar_address(want.step, "skipped", rank, word(want.skipped), word(have.skipped)));
  }
  if (is_missing(want, "lr") || is_missing(have, "lr")) return {};
  if (scalar_bits(want.lr) == scalar_bits(have.lr)) return {};
  return rule_fail(fmt::format("the learning rate of step {} is another one", want.step),
                   scalar_address(want.step, "lr", rank,
                                  fmt::format("{:.12g} ({})", want.lr, scalar_bits(want.lr)),
                                  fmt::format("{:.12g} ({})", have.lr, scalar_bits(have.lr))));
}

// What may drift. `off`: how far the references are from the truth there.
Ruling judge_drift(const StepRecord& want, const StepRecord& have, int rank, const char* what,
                   double StepRecord::*member, const Policy& policy, double off) {
  if (is_missing(want, what) || is_missing(have, what)) return {};
  const double left = want.*member, right = have.*member;
  if (!std::isfinite(left)) return {};
  const double allowed = std::max(policy.bound * std::abs(left), native_gradients().bound * off);
  if (std::abs(right - left) <= allowed) return {};  // false for a NaN
  Difference at =
      scalar_address(want.step, what, rank, fmt::format("{:.9g} within {:.2g}", left, allowed),
                     fmt::format("{:.9g}", right));
  if (allowed > 0 && std::isfinite(right)) at.times = std::abs(right - left) / allowed;
  return rule_fail(fmt::format("the {} of step {} on rank {} has drifted beyond what rounding does "
                               "in so few steps",
                               what, want.step, rank),
                   at);
}

// How far two references, or one and the truth, are apart.
double spread(const StepSides& sides, std::int64_t step, double StepRecord::*member) {
  const StepRecord* truth = sides.truth.ranks.front().find_step(step);
  double out = 0;
  for (const Trace* each : sides.references) {
    const StepRecord* record = each->ranks.front().find_step(step);
    if (truth == nullptr || record == nullptr) continue;
    const double off = std::abs(record->*member - truth->*member);
    if (std::isfinite(off)) out = std::max(out, off);
  }
  return out;
}

Ruling judge_step(const StepSides& sides, const StepRecord& want, const StepRecord& have,
                  int rank) {
  if (Ruling out = judge_equal(want, have, rank); out.outcome != Outcome::pass) return out;
  const std::int64_t behind = want.step - sides.step;
  if (behind < 1 || behind > near_steps || want.skipped) return {};
  Ruling out = judge_drift(want, have, rank, "loss", &StepRecord::loss, subject_loss_drift(),
                           spread(sides, want.step, &StepRecord::loss));
  if (out.outcome != Outcome::pass) return out;
  return judge_drift(want, have, rank, "grad_norm", &StepRecord::grad_norm, subject_norm_drift(),
                     spread(sides, want.step, &StepRecord::grad_norm));
}

}  // namespace

Ruling judge_moments(const StepSides& sides, StepMade& made) {
  if (!all_hold(sides, sides.step, "moment")) return {};
  constexpr double clipping = 8;  // u that a norm's own rounding puts into the factor of clipping
  for (const char* suffix : {"/exp_avg", "/exp_avg_sq"}) {
    const ErrorComparison errors =
        compare_errors(sides.truth, sides.references, sides.found, sides.step, "moment",
                       ErrorRule{few_elements, clipping, suffix});
    made.moments += errors.tensors;
    if (!errors.captured) continue;
    if (!errors.incomparable.empty()) return rule_open(errors.incomparable);
    const bool square = std::string(suffix) == "/exp_avg_sq";
    const double bound = (square ? subject_square_moment() : subject_linear_moment()).bound;
    if (errors.ratio <= bound) continue;
    return rule_fail(fmt::format("the moment {} after step {} is {:.3g} x as far off as the "
                                 "reference, though its gradient is right; at most {:g} is "
                                 "rounding",
                                 errors.worst.tensor, sides.step, errors.ratio, bound),
                     errors.worst);
  }
  return {};
}

Ruling judge_updates(const StepSides& sides, const std::set<std::string>& noise, StepMade& made) {
  if (!all_hold(sides, sides.step - 1, "param") || !all_hold(sides, sides.step, "param")) return {};
  const UpdateJudge judge(sides);
  for (const std::string& name : judge.names()) {
    if (noise.contains(name)) continue;
    if (Ruling out = judge.judge(name); out.outcome != Outcome::pass) return out;
    ++made.updates;
  }
  return {};
}

Ruling judge_later(const StepSides& sides) {
  const Trace& plain = *sides.references.front();
  for (const std::int64_t step : plain.step_numbers()) {
    const StepRecord* want = plain.ranks.front().find_step(step);
    for (const RankTrace& rank : sides.found.ranks) {
      const StepRecord* have = rank.find_step(step);
      if (want == nullptr || have == nullptr) continue;
      Ruling out = judge_step(sides, *want, *have, rank.rank);
      if (out.outcome != Outcome::pass) return out;
    }
  }
  return {};
}

}  // namespace shardproof
