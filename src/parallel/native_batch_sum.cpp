// native_batch_sum: one sum a rank, of the whole context share (once a step) or of this rank's
// share (every micro-batch).
#include "parallel/native_batch_sum.h"

#include <cstring>
#include <utility>

#include "comm/canonical.h"
#include "parallel/flat.h"

namespace shardproof {
namespace {

at::Tensor arena(std::int64_t elements) {
  return flat_empty(elements, MemoryUse::gradients);
}

class NativeBatchSum : public BatchSum {
 public:
  NativeBatchSum(PlanGroups& groups, BatchSumOptions options)
      : groups_(groups),
        options_(std::move(options)),
        share_(share_range(options_.shares, groups.shard_rank())),
        whole_(total(options_.shares)) {}

  // With one context rank the gradient comes in an arena of its own.
  at::Tensor spare() override {
    return groups_.context().size() == 1 ? at::Tensor() : arena(whole_);
  }

  void add(int, at::Tensor gradient) override {
    if (options_.every_micro_batch) {
      at::Tensor share = arena(share_.size());
      scatter(gradient.const_data_ptr(), share.data_ptr());
      gradient = std::move(share);
    }
    if (!sum_.defined()) {
      sum_ = std::move(gradient);
    } else if (!any_) {
      std::memcpy(sum_.data_ptr(), gradient.const_data_ptr(), gradient.nbytes());
    } else {
      canonical::add_into(sum_.data_ptr(), gradient.const_data_ptr(),
                          static_cast<std::size_t>(sum_.numel()), Dtype::f32);
    }
    any_ = true;
  }

  float* reduce() override {
    if (!sum_.defined()) sum_ = arena(options_.every_micro_batch ? share_.size() : whole_);
    if (!any_) sum_.zero_();  // a rank without micro-batches
    auto* data = sum_.data_ptr<float>();
    if (!options_.every_micro_batch) {
      scatter(data, data + share_.lo);
      data += share_.lo;
    }
    if (groups_.replicas() > 1) {
      all_reduce(groups_.replica_group(), data, data, static_cast<std::size_t>(share_.size()),
                 Dtype::f32, ReduceOp::sum);
    }
    return data;
  }

  void clear() override { any_ = false; }
  std::int64_t live_bytes() const override {
    return sum_.defined() ? static_cast<std::int64_t>(sum_.nbytes()) : 0;
  }

 private:
  void scatter(const void* from, void* to) {
    reduce_scatter_v(groups_.shard(), from, to, options_.shares, Dtype::f32, ReduceOp::sum);
  }

  PlanGroups& groups_;
  const BatchSumOptions options_;
  const ElementRange share_;
  const std::int64_t whole_;
  at::Tensor sum_;
  bool any_ = false;  // something has been added since clear()
};

}  // namespace

std::unique_ptr<BatchSum> make_native_batch_sum(PlanGroups& groups, BatchSumOptions options) {
  return std::make_unique<NativeBatchSum>(groups, std::move(options));
}

}  // namespace shardproof
