// unit_parameters: shares, gathers, views.
#include "parallel/unit_parameters.h"

#include <utility>

#include "base/check.h"

namespace shardproof {

at::Tensor BufferPool::take() {
  if (free_.empty()) {
    ++made_;
    return flat_empty(elements_, MemoryUse::gathered);
  }
  at::Tensor buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void BufferPool::give_back(at::Tensor buffer) {
  free_.push_back(std::move(buffer));
}

std::int64_t BufferPool::bytes() const {
  return made_ * elements_ * static_cast<std::int64_t>(sizeof(float));
}

UnitParameters::UnitParameters(const PieceTable& table, Shares shares, Communicator& group,
                               BufferPool* pool)
    : table_(table),
      shares_(std::move(shares)),
      group_(group),
      pool_(pool),
      share_(share_range(shares_, group.rank())) {
  if (pool_ != nullptr) {
    kept_ = flat_zeros(share_.size(), MemoryUse::parameters);
  } else {
    whole_ = flat_zeros(table.elements(), MemoryUse::parameters);
    make_views();
  }
}

float* UnitParameters::share_data() {
  return pool_ != nullptr ? kept_.data_ptr<float>() : whole_.data_ptr<float>() + share_.lo;
}

const at::Tensor& UnitParameters::view(int piece_index) const {
  SP_CHECK(whole(), "a parameter is used that is not gathered");
  return views_.at(static_cast<std::size_t>(piece_index));
}

void UnitParameters::make_views() {
  views_.clear();
  for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
    const ElementRange range = table_.range(static_cast<int>(i));
    views_.push_back(whole_.narrow(0, range.lo, range.size()).view(table_.pieces()[i].box.shape));
  }
}

void UnitParameters::spread() {
  SP_CHECK(pool_ == nullptr, "a sharded unit is gathered, not spread");
  all_gather_v(group_, share_data(), data(), shares_, Dtype::f32);
}

Call UnitParameters::gather_call() {
  Call call;
  call.kind = CallKind::all_gather;
  call.dtype = Dtype::f32;
  call.send = kept_.const_data_ptr();
  call.recv = whole_.data_ptr();
  call.recv_counts = shares_;
  return call;
}

void UnitParameters::start_gather() {
  if (pool_ == nullptr || whole_.defined()) return;
  whole_ = pool_->take();
  // Both tensors outlive the call whatever happens to this.
  const auto keep = std::make_shared<std::pair<at::Tensor, at::Tensor>>(kept_, whole_);
  work_ = group_.start(gather_call(), keep);
}

void UnitParameters::gather() {
  if (pool_ == nullptr || whole()) return;
  if (work_ != nullptr) {
    work_->wait(default_deadline(group_));
    work_ = nullptr;
  } else {
    whole_ = pool_->take();
    group_.run(gather_call(), default_deadline(group_));
  }
  make_views();
}

void UnitParameters::release() {
  if (pool_ == nullptr || !whole_.defined()) return;
  if (work_ != nullptr) work_->wait(default_deadline(group_));
  work_ = nullptr;
  views_.clear();
  pool_->give_back(std::exchange(whole_, at::Tensor()));
}

std::int64_t UnitParameters::resident_bytes() const {
  return static_cast<std::int64_t>(pool_ != nullptr ? kept_.nbytes() : whole_.nbytes());
}

}  // namespace shardproof
