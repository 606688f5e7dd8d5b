// tied_weights: shares of both units have the same bounds, since their tables are equal and so are
// the groups that share them.
#include "parallel/tied_weights.h"

#include <ATen/ops/empty.h>

#include "base/memory_use.h"
#include "comm/canonical.h"

namespace shardproof {
namespace {

// On the pipeline's axis, where no message of a stage is under way any more.
constexpr int tag = (1 << 20) - 1;
constexpr int first_stage = 0;

}  // namespace

void TiedWeights::add_gradients(float* embedding_share, float* head_share) {
  if (embedding_ == nullptr && head_ == nullptr) return;
  const auto count =
      static_cast<std::size_t>((embedding_ != nullptr ? embedding_ : head_)->share().size());
  if (embedding_ == nullptr) {
    send(pipeline_, head_share, count, Dtype::f32, first_stage, tag);
    return;
  }
  at::Tensor received;
  if (head_ == nullptr) {
    const MemoryScope scope(MemoryUse::communication);
    received = at::empty({static_cast<std::int64_t>(count)}, at::kFloat);
    recv(pipeline_, received.data_ptr(), count, Dtype::f32, pipeline_.size() - 1, tag);
    head_share = received.data_ptr<float>();
  }
  canonical::add_into(embedding_share, head_share, count, Dtype::f32);
}

void TiedWeights::copy_values() {
  if ((embedding_ == nullptr) == (head_ == nullptr)) return;  // one rank's, or nobody's
  const auto count =
      static_cast<std::size_t>((embedding_ != nullptr ? embedding_ : head_)->share().size());
  if (embedding_ != nullptr) {
    const at::Tensor values = embedding_->parameters().share_values();
    send(pipeline_, values.const_data_ptr(), count, Dtype::f32, pipeline_.size() - 1, tag);
    return;
  }
  at::Tensor values = head_->parameters().share_values();
  recv(pipeline_, values.data_ptr(), count, Dtype::f32, first_stage, tag);
  head_->parameters().set_share(0, {values.const_data_ptr<float>(), count});
  if (!head_->parameters().sharded()) head_->parameters().spread();
}

}  // namespace shardproof
