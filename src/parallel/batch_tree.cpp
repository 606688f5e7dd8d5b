// batch_tree: arenas meet their siblings as micro-batches end.
#include "parallel/batch_tree.h"

#include <utility>

#include "base/check.h"
#include "comm/canonical.h"
#include "parallel/flat.h"

namespace shardproof {

BatchTree::BatchTree(std::int64_t elements, int micro_batches)
    : elements_(elements), micro_batches_(micro_batches) {}

at::Tensor BatchTree::take() {
  if (free_.empty()) {
    ++made_;
    return flat_empty(elements_, MemoryUse::gradients);
  }
  at::Tensor arena = std::move(free_.back());
  free_.pop_back();
  return arena;
}

const at::Tensor& BatchTree::spare() {
  if (free_.empty()) free_.push_back(take());
  return free_.back();
}

void BatchTree::give_back(at::Tensor arena) {
  free_.push_back(std::move(arena));
}

void BatchTree::add(int micro_batch, at::Tensor sum) {
  add(Node{micro_batch, micro_batch + 1}, std::move(sum));
}

void BatchTree::add(Node node, at::Tensor sum) {
  SP_CHECK_LE(0, node.lo);
  SP_CHECK_LE(node.hi, micro_batches_);
  SP_CHECK_EQ(sum.numel(), elements_);
  while (const auto other = sibling(node, micro_batches_)) {
    const auto found = done_.find(*other);
    if (found == done_.end()) break;
    at::Tensor left = found->second;
    done_.erase(found);
    if (node.lo < other->lo) std::swap(left, sum);
    canonical::add_into(left.data_ptr<float>(), sum.const_data_ptr<float>(),
                        static_cast<std::size_t>(elements_), Dtype::f32);
    give_back(std::move(sum));
    sum = std::move(left);
    node = parent(node, micro_batches_);
  }
  SP_CHECK(done_.emplace(node, std::move(sum)).second, "a micro-batch ended twice");
}

void BatchTree::clear() {
  for (auto& [node, arena] : done_) give_back(std::move(arena));
  done_.clear();
}

std::int64_t BatchTree::live_bytes() const {
  return made_ * elements_ * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace shardproof
