// tensor_windows: what a side holds of a tensor, read once and in the order of the global grid,
// however it is cut, a window at a time. What was read is taken out of memory again, so tensors may
// be larger than it. Torch-free. Thread rule: one walk per thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "invariants/tensor_grid.h"

namespace shardproof {

// Elements of a window. One megabyte of floats: it stays in a cache while all sides pass through.
constexpr std::int64_t window_elements = std::int64_t{1} << 18;

// All entries of one side. They must outlive it.
class TensorWalk {
 public:
  explicit TensorWalk(const std::vector<HeldBytes>& entries);
  ~TensorWalk();
  TensorWalk(const TensorWalk&) = delete;
  TensorWalk& operator=(const TensorWalk&) = delete;

  // Calls f(number of the entry, stretch, its bytes) for all in front of the global element `end`
  // that was not yet passed, entry by entry. Bytes may be looked at again until the next call.
  template <typename F>
  void until(std::int64_t end, const F& f) {
    release();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      while (const auto each = stretches_[i].next(end)) {
        const std::size_t width = size_of(entries_[i].entry.dtype);
        const auto begin = static_cast<std::size_t>(each->local) * width;
        passed_[i] = begin + static_cast<std::size_t>(each->count) * width;
        f(i, *each, entries_[i].entry.bytes.data() + begin);
      }
    }
  }

 private:
  void release();

  const std::vector<HeldBytes>& entries_;
  std::vector<StretchWalk> stretches_;
  std::vector<std::size_t> passed_, released_;  // bytes, per entry
};

// The elements [lo, hi) of a side: of each, what its first holder has. Without a copy where one
// entry holds them all side by side.
class Window {
 public:
  // The next [lo, hi) of `walk`, which has come as far as `lo`.
  void read(TensorWalk& walk, std::int64_t lo, std::int64_t hi, Dtype dtype);

  std::int64_t lo() const { return lo_; }
  std::int64_t hi() const { return hi_; }
  const std::byte* at(std::int64_t global) const {
    return data_ + static_cast<std::size_t>(global - lo_) * width_;
  }
  bool holds(std::int64_t global) const {
    return whole_ || present_[static_cast<std::size_t>(global - lo_)] != 0;
  }
  // The first element that is not held, from `global` on and in front of `end`; `end` when all are.
  std::int64_t first_absent(std::int64_t global, std::int64_t end) const;

 private:
  std::int64_t lo_ = 0, hi_ = 0;
  std::size_t width_ = 0;
  const std::byte* data_ = nullptr;
  bool whole_ = false;
  std::vector<std::byte> copy_;
  std::vector<std::uint8_t> present_;
};

// Which elements of a window were passed.
class Coverage {
 public:
  void begin(std::int64_t lo, std::int64_t hi);
  void add(const Stretch& stretch);
  bool has(std::int64_t global) const {
    return whole_ || (marked_ && seen_[static_cast<std::size_t>(global - lo_)] != 0);
  }
  std::optional<std::int64_t> first_missing() const;  // global element

 private:
  std::int64_t lo_ = 0, hi_ = 0;
  bool whole_ = false;
  bool marked_ = false;  // whether seen_ is of this window
  std::vector<std::uint8_t> seen_;
};

}  // namespace shardproof
