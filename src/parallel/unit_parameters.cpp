// unit_parameters: shares, gathers, views.
#include "parallel/unit_parameters.h"

#include <algorithm>
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
                               BufferPool* pool, OffloadStore* store)
    : table_(table),
      shares_(std::move(shares)),
      group_(group),
      pool_(pool),
      share_(share_range(shares_, group.rank())) {
  SP_CHECK(store == nullptr || pool != nullptr, "only shares of sharded units are offloaded");
  if (store != nullptr) {
    away_ = store->make(share_.size());
  } else if (pool_ != nullptr) {
    kept_ = flat_zeros(share_.size(), MemoryUse::parameters);
  } else {
    whole_ = flat_zeros(table.elements(), MemoryUse::parameters);
    make_views();
  }
}

std::span<float> UnitParameters::place_in(at::Tensor& whole) const {
  return {whole.data_ptr<float>() + share_.lo, static_cast<std::size_t>(share_.size())};
}

void UnitParameters::keep_view() {
  if (away_) away_->keep_view();
}

void UnitParameters::drop_view() {
  if (away_) away_->drop_view();
}

at::Tensor UnitParameters::share_values() {
  if (!away_) return pool_ != nullptr ? kept_ : whole_.narrow(0, share_.lo, share_.size());
  at::Tensor copy = flat_empty(share_.size(), MemoryUse::parameters);
  away_->bring_in(0, {copy.data_ptr<float>(), static_cast<std::size_t>(share_.size())});
  return copy;
}

void UnitParameters::set_share(std::int64_t lo, std::span<const float> values) {
  if (away_) return away_->put_out(lo, values);
  float* to = share_data() + lo;
  if (to != values.data()) std::ranges::copy(values, to);
}

float* UnitParameters::share_data() {
  if (away_) return away_->view();
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
  call.send = away_ ? place_in(whole_).data() : kept_.const_data_ptr();  // the former in place
  call.recv = whole_.data_ptr();
  call.recv_counts = shares_;
  return call;
}

void UnitParameters::take_buffer() {
  whole_ = pool_->take();
  if (away_) away_->bring_in(0, place_in(whole_));
}

void UnitParameters::start_gather() {
  if (pool_ == nullptr || whole_.defined()) return;
  take_buffer();
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
    take_buffer();
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
  if (away_) return 0;
  return static_cast<std::int64_t>(pool_ != nullptr ? kept_.nbytes() : whole_.nbytes());
}

}  // namespace shardproof
