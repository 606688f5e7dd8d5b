// Cross entropy over a cut vocabulary.
#include "model/loss.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "base/batch.h"
#include "base/check.h"

namespace shardproof {
namespace {

void sum_columns(const at::Tensor& rows, at::Tensor out) {
  at::sum_out(out, rows, {1});
}

// The target's logit where this piece holds it, else 0.
template <typename T>
void pick_targets(const at::Tensor& logits, std::int64_t first, Ids targets, T* out) {
  const std::int64_t share = logits.size(1);
  const T* row = logits.const_data_ptr<T>();
  for (const std::int32_t target : targets) {
    const std::int64_t column = target - first;
    const bool here = target != MicroBatch::ignored && 0 <= column && column < share;
    *out++ = here ? row[column] : T{0};
    row += share;
  }
}

// A row's loss: log-sum-exp - target logit, and under smoothing (1 - e) of it and e of log-sum-exp
// - mean logit. `sums`: exponentials, target logits, and all logits under smoothing, over tree(V).
LossSum add_up(const at::Tensor& most, const at::Tensor& sums, Ids targets, Smoothing smoothing) {
  LossSum loss;
  const at::Tensor log_total = sums.select(0, 0).log();
  AT_DISPATCH_FLOATING_TYPES(most.scalar_type(), "cross_entropy", [&] {
    const auto rows = static_cast<std::int64_t>(targets.size());
    const auto* m = most.const_data_ptr<scalar_t>();
    const auto* log = log_total.const_data_ptr<scalar_t>();
    const auto* logit = sums.const_data_ptr<scalar_t>() + rows;
    const auto* all = logit + rows;
    const auto on_target = static_cast<scalar_t>(1 - smoothing.epsilon);
    const auto on_all = static_cast<scalar_t>(smoothing.epsilon);
    const auto entries = static_cast<scalar_t>(smoothing.vocabulary);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (targets[static_cast<std::size_t>(r)] == MicroBatch::ignored) continue;
      scalar_t term = (m[r] + log[r]) - logit[r];
      if (smoothing.epsilon > 0) {
        const scalar_t uniform = (m[r] + log[r]) - all[r] / entries;
        term = on_target * term + on_all * uniform;
      }
      loss.sum += static_cast<double>(term);
      ++loss.count;
    }
  });
  return loss;
}

}  // namespace

std::vector<LossSum> cross_entropy(Parts logits, const std::vector<std::int64_t>& first,
                                   const std::vector<Ids>& targets, Smoothing smoothing,
                                   Seams& seams, Site site, LossSaved& saved) {
  Parts maxima;
  for (const auto& pieces : logits) {
    auto& of_piece = maxima.emplace_back();
    for (const at::Tensor& z : pieces) of_piece.push_back(at::amax(z, {1}));
  }
  site.what = "loss.max";
  const std::vector<at::Tensor> most = seams.loss_max(std::move(maxima), site);

  // Row 0: sums of exponentials, row 1: target logits, row 2: sums of logits under smoothing; one
  // exchange carries them all.
  Parts terms;
  for (std::size_t s = 0; s < logits.size(); ++s) {
    auto& of_piece = terms.emplace_back();
    SP_CHECK_EQ(most[s].numel(), static_cast<std::int64_t>(targets[s].size()));
    for (std::size_t v = 0; v < logits[s].size(); ++v) {
      at::Tensor& z = logits[s][v];
      at::Tensor rows = at::empty({smoothing.epsilon > 0 ? 3 : 2, z.size(0)}, z.options());
      AT_DISPATCH_FLOATING_TYPES(z.scalar_type(), "pick_targets", [&] {
        pick_targets(z, first[v], targets[s], rows.mutable_data_ptr<scalar_t>() + z.size(0));
      });
      if (smoothing.epsilon > 0) sum_columns(z, rows.select(0, 2));
      z.sub_(most[s].unsqueeze(1)).exp_();
      sum_columns(z, rows.select(0, 0));
      of_piece.push_back(std::move(rows));
    }
  }
  site.what = "loss.sum";
  const std::vector<at::Tensor> sums = seams.loss_sum(std::move(terms), site);

  std::vector<LossSum> losses;
  for (std::size_t s = 0; s < logits.size(); ++s) {
    saved.totals.push_back(sums[s].select(0, 0));
    losses.push_back(add_up(most[s], sums[s], targets[s], smoothing));
  }
  saved.exponentials = std::move(logits);
  return losses;
}

at::Tensor cross_entropy_backward(at::Tensor exponentials, const at::Tensor& totals,
                                  std::int64_t first, Ids targets, Smoothing smoothing,
                                  double seed) {
  const std::int64_t share = exponentials.size(1);
  SP_CHECK_EQ(exponentials.size(0), static_cast<std::int64_t>(targets.size()));
  AT_DISPATCH_FLOATING_TYPES(exponentials.scalar_type(), "cross_entropy_backward", [&] {
    auto* __restrict row = exponentials.mutable_data_ptr<scalar_t>();
    const auto* total = totals.const_data_ptr<scalar_t>();
    const auto scale = static_cast<scalar_t>(seed);
    const auto on_target = static_cast<scalar_t>(1 - smoothing.epsilon);
    const auto on_each = static_cast<scalar_t>(smoothing.share());
    for (std::size_t r = 0; r < targets.size(); ++r, row += share) {
      const bool valid = targets[r] != MicroBatch::ignored;
      const scalar_t divisor = total[r];
      const scalar_t factor = valid ? scale : scalar_t{0};
      const scalar_t uniform = valid ? on_each : scalar_t{0};  // an ignored row stays +0
      const std::int64_t column = valid ? targets[r] - first : -1;
      for (std::int64_t i = 0; i < share; ++i) row[i] = row[i] / divisor - uniform;
      if (0 <= column && column < share) row[column] -= on_target;
      for (std::int64_t i = 0; i < share; ++i) row[i] *= factor;
    }
  });
  return exponentials;
}

}  // namespace shardproof
