// tensor_windows: see the header.
#include "invariants/tensor_windows.h"

#include <algorithm>

#include "trace/mapped_file.h"

namespace shardproof {
namespace {

// Below this, taking pages out costs more than it gives.
constexpr std::size_t worth_releasing = std::size_t{64} << 10;

}  // namespace

TensorWalk::TensorWalk(const std::vector<HeldBytes>& entries)
    : entries_(entries), passed_(entries.size()), released_(entries.size()) {
  for (const HeldBytes& each : entries) stretches_.emplace_back(each.entry.place);
}

TensorWalk::~TensorWalk() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    release_pages(entries_[i].entry.bytes.subspan(released_[i], passed_[i] - released_[i]));
  }
}

void TensorWalk::release() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (passed_[i] - released_[i] < worth_releasing) continue;
    release_pages(entries_[i].entry.bytes.subspan(released_[i], passed_[i] - released_[i]));
    released_[i] = passed_[i];
  }
}

void Window::read(TensorWalk& walk, std::int64_t lo, std::int64_t hi, Dtype dtype) {
  lo_ = lo;
  hi_ = hi;
  width_ = size_of(dtype);
  whole_ = false;
  bool copied = false;
  const auto count = static_cast<std::size_t>(hi - lo);
  walk.until(hi, [&](std::size_t, const Stretch& each, const std::byte* bytes) {
    if (whole_) return;
    if (!copied && each.global == lo && each.count == hi - lo) {
      whole_ = true;
      data_ = bytes;
      return;
    }
    if (!copied) {
      copied = true;
      copy_.resize(count * width_);
      present_.assign(count, 0);
    }
    const auto from = static_cast<std::size_t>(each.global - lo);
    const auto length = static_cast<std::size_t>(each.count);
    const auto begin = present_.begin() + static_cast<std::ptrdiff_t>(from);
    if (std::memchr(&present_[from], 1, length) == nullptr) {
      std::memcpy(&copy_[from * width_], bytes, length * width_);
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        if (present_[from + i] != 0) continue;
        std::memcpy(&copy_[(from + i) * width_], bytes + i * width_, width_);
      }
    }
    std::fill_n(begin, length, 1);
  });
  if (whole_) return;
  if (!copied) present_.assign(count, 0);
  data_ = copy_.data();
}

std::int64_t Window::first_absent(std::int64_t global, std::int64_t end) const {
  if (whole_) return end;
  const auto from = present_.begin() + (global - lo_), to = present_.begin() + (end - lo_);
  return global + (std::find(from, to, 0) - from);
}

void Coverage::begin(std::int64_t lo, std::int64_t hi) {
  lo_ = lo;
  hi_ = hi;
  whole_ = lo == hi;
  marked_ = false;
}

void Coverage::add(const Stretch& stretch) {
  if (whole_) return;
  if (stretch.global == lo_ && stretch.count == hi_ - lo_) {
    whole_ = true;
    return;
  }
  if (!marked_) seen_.assign(static_cast<std::size_t>(hi_ - lo_), 0);
  marked_ = true;
  std::fill_n(seen_.begin() + (stretch.global - lo_), stretch.count, 1);
}

std::optional<std::int64_t> Coverage::first_missing() const {
  if (whole_) return std::nullopt;
  if (!marked_) return lo_;
  const auto hole = std::find(seen_.begin(), seen_.end(), 0);
  if (hole == seen_.end()) return std::nullopt;
  return lo_ + (hole - seen_.begin());
}

}  // namespace shardproof
