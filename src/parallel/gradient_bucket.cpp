// gradient_bucket: additions in the order in which leaves arrive.
#include "parallel/gradient_bucket.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "comm/canonical.h"
#include "parallel/flat.h"

namespace shardproof {

GradientBucket::GradientBucket(PieceTable table,
                               const std::function<int(const std::string&)>& leaves)
    : table_(std::move(table)),
      parameters_(flat_zeros(table_.elements(), MemoryUse::parameters)),
      gradient_(flat_zeros(table_.elements(), MemoryUse::gradients)),
      arrived_(table_.pieces().size(), 0) {
  for (const PieceSpec& piece : table_.pieces()) leaves_.push_back(leaves(piece.name));
}

at::Tensor GradientBucket::view(int piece_index) const {
  const ElementRange range = table_.range(piece_index);
  return parameters_.narrow(0, range.lo, range.size())
      .view(table_.pieces()[static_cast<std::size_t>(piece_index)].box.shape);
}

std::span<float> GradientBucket::gradient() {
  return {gradient_.data_ptr<float>(), static_cast<std::size_t>(gradient_.numel())};
}

void GradientBucket::start_optimizer(const OptimizerOffload& offload) {
  optimizer_.emplace(table_, ElementRange{0, table_.elements()}, parameters(), offload);
}

void GradientBucket::begin_step() {
  SP_CHECK(work_ == nullptr, "a step begins before a bucket has arrived");
  std::ranges::fill(arrived_, 0);
  missing_ = std::accumulate(leaves_.begin(), leaves_.end(), std::int64_t{0});
  launched_ = false;
  optimizer_->drop_views();
  if (missing_ == 0) gradient_.zero_();  // a rank without micro-batches brings zeros
}

void GradientBucket::add(int piece_index, const at::Tensor& leaf) {
  SP_CHECK(!launched_, "a gradient arrived after its bucket had left");
  const ElementRange range = table_.range(piece_index);
  SP_CHECK_EQ(leaf.numel(), range.size());
  SP_CHECK(leaf.is_contiguous() && leaf.scalar_type() == at::kFloat,
           "a gradient leaf must be contiguous fp32");
  float* sum = gradient_.data_ptr<float>() + range.lo;
  int& arrived = arrived_[static_cast<std::size_t>(piece_index)];
  SP_CHECK_LT(arrived, leaves_[static_cast<std::size_t>(piece_index)]);
  if (arrived++ == 0) {
    std::memcpy(sum, leaf.const_data_ptr<float>(), leaf.nbytes());
  } else {
    canonical::add_into(sum, leaf.const_data_ptr<float>(), static_cast<std::size_t>(range.size()),
                        Dtype::f32);
  }
  --missing_;
}

std::vector<std::string> GradientBucket::missing() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < arrived_.size(); ++i) {
    if (arrived_[i] < leaves_[i]) names.push_back(table_.pieces()[i].name);
  }
  return names;
}

void GradientBucket::launch(Communicator& comm, bool overlap) {
  launched_ = true;
  Call call;
  call.kind = CallKind::all_reduce;
  call.op = ReduceOp::sum;
  call.dtype = Dtype::f32;
  call.send = gradient_.const_data_ptr();
  call.recv = gradient_.data_ptr();
  call.count = static_cast<std::size_t>(gradient_.numel());
  if (overlap) {
    work_ = comm.start(call, std::make_shared<at::Tensor>(gradient_));
  } else {
    comm.run(call, default_deadline(comm));
  }
}

void GradientBucket::finish(Communicator& comm) {
  if (work_ != nullptr) work_->wait(default_deadline(comm));
  work_ = nullptr;
}

void GradientBucket::update(const AdamWConfig& config, const AdamWStep& at,
                            const std::vector<std::string>& no_decay) {
  optimizer_->update(config, at, no_decay, gradient_.const_data_ptr<float>(),
                     [this](std::int64_t lo, std::span<const float> masters) {
                       std::ranges::copy(masters, parameters() + lo);
                     });
}

}  // namespace shardproof
