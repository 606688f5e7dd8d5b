// compare_errors: the declared error model, for tensors whose bits cannot be demanded: how far a
// run's tensors are from float64's, beside how far a reference of the same arithmetic is.
// Torch-free. Thread rule: pure functions of their arguments. Not checked here: that all sides
// started from the same weights (check_native_layout does that).
#pragma once

#include <set>
#include <span>

#include "invariants/compare_tensors.h"

namespace shardproof {

// The policy for native reduction, and the one for a loss under it, with their reasons.
const Policy& native_gradients();
const Policy& native_loss();
// The one for a loss or norm of somebody's program, in its precision (u).
const Policy& subject_scalar(double unit);
// Those for what the optimizer makes of such a program's gradients in one step from the same state:
// moments that are linear in a gradient (exp_avg), those of its square (exp_avg_sq), and the update
// of a parameter (its bound is of subject_update_share x |update| at least).
const Policy& subject_linear_moment();
const Policy& subject_square_moment();
const Policy& subject_update();
inline constexpr double subject_update_share = 0.02;
// Those for later steps, whose weights are the same up to rounding.
const Policy& subject_loss_drift();
const Policy& subject_norm_drift();

// Per tensor, with 2-norms: ratio = |found - truth| / max(|reference - truth|, u x |truth|), with
// u = 2^-24 for F32, 2^-9 for BF16 and 2^-53 for F64, of the first
// reference's dtype; a judged tensor of a coarser one is incomparable. Of an element that several
// ranks hold, the worst copy counts. A gradient that cancels (a key's bias has none but rounding)
// is all noise, and how much depends on shapes: further references beside a float64 truth (cut as
// the layout is) may widen what the first allows, by policy.bound at most, so that no mistake in
// them hides one. Without float64 the one that is farthest off counts. `worst` names the tensor
// with the largest ratio and its farthest element; it fails where `ratio` > policy.bound. A tensor
// or element that a side lacks, or of another shape, is an infinite ratio.
struct ErrorComparison {
  std::int64_t tensors = 0;
  double ratio = 0;
  Difference worst;  // left: what float64 says; right: what was found
  // 2-norms over all tensors: of the truth, of the error allowed (a ratio of 1), and of what the
  // references are off, the worst of them in each tensor.
  double norm = 0;
  double allowed = 0;
  double reference = 0;
  double unit = 0;  // the coarsest u of a judged tensor
  // Tensors that the references hold to no more than a few bits: they cancel, and are all noise.
  std::set<std::string> noise;
  double share = 0;          // reference / norm over the tensors of that u alone
  bool captured = false;     // whether both sides hold anything to compare
  std::string incomparable;  // why nothing can be said; empty otherwise
};
// `few`: of a tensor with fewer elements the reference's error may be next to nothing by luck, so
// at least its share over all tensors is allowed: |reference - truth| / |truth| of them together.
constexpr std::int64_t few_elements = 64;
struct ErrorRule {
  std::int64_t few = 0;
  double least = 1;    // u x |truth| that is allowed at least
  std::string suffix;  // only such names that truth and references have; empty: all of any side
};
ErrorComparison compare_errors(const Trace& truth, std::span<const Trace* const> references,
                               const Trace& found, std::int64_t step, const std::string& what,
                               const ErrorRule& rule = {});

}  // namespace shardproof
