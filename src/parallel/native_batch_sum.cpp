// native_batch_sum: one sum a rank, of the whole context share (once a step) or of this rank's
// share (every micro-batch).
#include "parallel/native_batch_sum.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <numeric>
#include <utility>

#include "base/memory_use.h"
#include "comm/canonical.h"

namespace shardproof {
namespace {

at::Tensor zeros(std::size_t count) {
  const MemoryScope scope(MemoryUse::gradients);
  return at::zeros({static_cast<std::int64_t>(count)}, at::kFloat);
}

class NativeBatchSum : public BatchSum {
 public:
  NativeBatchSum(PlanGroups& groups, BatchSumOptions options)
      : groups_(groups),
        options_(std::move(options)),
        share_(options_.shares[static_cast<std::size_t>(groups.shard_rank())]),
        begin_(std::accumulate(options_.shares.begin(),
                               options_.shares.begin() + groups.shard_rank(), std::size_t{0})),
        whole_(std::accumulate(options_.shares.begin(), options_.shares.end(), std::size_t{0})) {}

  at::Tensor spare() override {
    if (groups_.context().size() == 1 && options_.every_micro_batch) return {};
    if (free_.defined()) return std::exchange(free_, at::Tensor());
    return zeros(whole_);
  }

  void add(int, at::Tensor gradient) override {
    if (options_.every_micro_batch) {
      at::Tensor share = zeros(share_);
      scatter(gradient.const_data_ptr(), share.data_ptr());
      gradient = std::move(share);
    }
    if (!sum_.defined()) {
      sum_ = std::move(gradient);
      return;
    }
    canonical::add_into(sum_.data_ptr(), gradient.const_data_ptr(),
                        static_cast<std::size_t>(sum_.numel()), Dtype::f32);
    if (!options_.every_micro_batch) free_ = std::move(gradient);
  }

  float* reduce() override {
    if (!sum_.defined()) sum_ = zeros(options_.every_micro_batch ? share_ : whole_);  // no leaf
    auto* data = sum_.data_ptr<float>();
    if (!options_.every_micro_batch) {
      scatter(data, data + begin_);
      data += begin_;
    }
    if (groups_.replicas() > 1) {
      all_reduce(groups_.replica_group(), data, data, share_, Dtype::f32, ReduceOp::sum);
    }
    return data;
  }

  void clear() override {
    if (sum_.defined() && !options_.every_micro_batch) free_ = std::move(sum_);
    sum_ = at::Tensor();
  }

  std::int64_t live_bytes() const override {
    std::int64_t bytes = 0;
    for (const at::Tensor* each : {&sum_, &free_}) {
      if (each->defined()) bytes += static_cast<std::int64_t>(each->nbytes());
    }
    return bytes;
  }

 private:
  void scatter(const void* from, void* to) {
    reduce_scatter_v(groups_.shard(), from, to, options_.shares, Dtype::f32, ReduceOp::sum);
  }

  PlanGroups& groups_;
  const BatchSumOptions options_;
  const std::size_t share_, begin_, whole_;
  at::Tensor sum_;
  at::Tensor free_;  // an arena kept for the next micro-batch
};

}  // namespace

std::unique_ptr<BatchSum> make_native_batch_sum(PlanGroups& groups, BatchSumOptions options) {
  return std::make_unique<NativeBatchSum>(groups, std::move(options));
}

}  // namespace shardproof
