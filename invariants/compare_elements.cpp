// compare_elements: windows of both sides side by side; whole stretches at once where they agree.
#include "invariants/compare_elements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "invariants/tensor_windows.h"

namespace shardproof {
namespace {

// The expected tensor as the rank of `entry` holds it, where it holds the same place.
const HeldBytes* counterpart(const std::vector<HeldBytes>& expected, const HeldBytes& entry) {
  for (const HeldBytes& each : expected) {
    const TensorPlace &a = each.entry.place, &b = entry.entry.place;
    if (each.rank == entry.rank && a.box == b.box && elements_of(a) == elements_of(b)) return &each;
  }
  return nullptr;
}

// The first of `count` elements that differs; -1 when none does.
std::int64_t first_unequal(Dtype dtype, const std::byte* left, const std::byte* right,
                           std::int64_t count) {
  const std::size_t width = size_of(dtype);
  constexpr std::int64_t block = 4096;
  for (std::int64_t lo = 0; lo < count; lo += block) {
    const std::int64_t hi = std::min(lo + block, count);
    const std::size_t begin = static_cast<std::size_t>(lo) * width;
    if (std::memcmp(left + begin, right + begin, static_cast<std::size_t>(hi - lo) * width) == 0) {
      continue;
    }
    for (std::int64_t i = lo; i < hi; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * width;
      if (!same_element(dtype, left + at, right + at)) return i;
    }
  }
  return -1;
}

// What was found of one tensor, window by window.
class ElementJudge {
 public:
  ElementJudge(const std::vector<HeldBytes>& expected, const std::vector<HeldBytes>& found,
               const Difference& address)
      : expected_(expected), found_(found), address_(address), left_(expected), right_(found) {
    for (const HeldBytes& each : found) own_.push_back(counterpart(expected, each));
  }

  std::int64_t compared() const { return compared_; }

  // The first difference in [lo, hi), which follows the last.
  std::optional<Difference> judge(std::int64_t lo, std::int64_t hi) {
    const Dtype dtype = expected_.front().entry.dtype;
    want_.read(left_, lo, hi, dtype);
    seen_.begin(lo, hi);
    first_ = hi;
    std::optional<Difference> out;
    right_.until(hi, [&](std::size_t entry, const Stretch& each, const std::byte* bytes) {
      seen_.add(each);
      compared_ += each.count;
      if (auto unequal = judge_stretch(dtype, entry, each, bytes)) out = std::move(unequal);
    });
    const auto missing = find_missing();
    if (!missing || *missing >= first_) return out;
    return missing_difference(dtype, *missing);
  }

 private:
  // Of a stretch, what comes in front of all that was found so far.
  std::optional<Difference> judge_stretch(Dtype dtype, std::size_t entry, const Stretch& each,
                                          const std::byte* bytes) {
    const std::size_t width = size_of(dtype);
    const HeldBytes* own = own_[entry];
    const std::byte* left =
        own != nullptr ? own->entry.bytes.data() + static_cast<std::size_t>(each.local) * width
                       : want_.at(each.global);
    std::int64_t bad = first_unequal(dtype, left, bytes, each.count);
    const std::int64_t end = each.global + (bad < 0 ? each.count : bad);
    const std::int64_t absent = want_.first_absent(each.global, end);
    const bool lacks = absent < end;
    if (lacks) bad = absent - each.global;
    if (bad < 0 || each.global + bad >= first_) return std::nullopt;
    first_ = each.global + bad;
    const HeldBytes& held = found_[entry];
    Difference out = address_;
    out.rank = held.rank;
    out.piece = held.entry.place.piece;
    out.element = elements_of(held.entry.place).lo + each.local + bad;
    const std::size_t at = static_cast<std::size_t>(bad) * width;
    out.left = lacks ? "nothing" : element_hex(dtype, left + at);
    out.right = element_hex(dtype, bytes + at);
    if (!lacks) {
      out.times =
          roundings_apart(dtype, element_value(dtype, left + at), element_value(dtype, bytes + at));
    }
    tell_element(out, expected_, found_, first_);
    return out;
  }

  // Held by the expected side and not by the other.
  std::optional<std::int64_t> find_missing() const {
    const auto first = seen_.first_missing();
    if (!first) return std::nullopt;
    for (std::int64_t at = *first; at < want_.hi(); ++at) {
      if (want_.holds(at) && !seen_.has(at)) return at;
    }
    return std::nullopt;
  }

  Difference missing_difference(Dtype dtype, std::int64_t at) const {
    Difference out = address_;
    out.left = fmt::format("{} at global element {}", element_hex(dtype, want_.at(at)), at);
    out.right = "nothing";
    tell_element(out, expected_, found_, at);
    return out;
  }

  const std::vector<HeldBytes>& expected_;
  const std::vector<HeldBytes>& found_;
  const Difference& address_;
  TensorWalk left_, right_;
  std::vector<const HeldBytes*> own_;  // per entry of found
  Window want_;
  Coverage seen_;
  std::int64_t first_ = 0;  // what differs first in this window
  std::int64_t compared_ = 0;
};

// An entry that cannot be laid on the expected tensor.
std::optional<Difference> other_form(const std::vector<HeldBytes>& expected,
                                     const std::vector<HeldBytes>& found, Difference address) {
  const TensorFile::Entry& want = expected.front().entry;
  for (const HeldBytes& each : found) {
    const TensorFile::Entry& entry = each.entry;
    if (entry.dtype == want.dtype && entry.place.global_shape == want.place.global_shape) continue;
    address.rank = each.rank;
    address.left =
        fmt::format("{} [{}]", name(want.dtype), fmt::join(want.place.global_shape, ","));
    address.right =
        fmt::format("{} [{}]", name(entry.dtype), fmt::join(entry.place.global_shape, ","));
    return address;
  }
  return std::nullopt;
}

}  // namespace

void tell_element(Difference& address, const std::vector<HeldBytes>& expected,
                  const std::vector<HeldBytes>& found, std::int64_t global_index) {
  address.index = index_of(expected.front().entry.place.global_shape, global_index);
  address.left_ranks = holders(expected, global_index);
  address.right_ranks = holders(found, global_index);
}

void compare_elements(const std::vector<HeldBytes>& expected, const std::vector<HeldBytes>& found,
                      const Difference& address, TensorComparison& out) {
  check_alike(expected);
  out.first = other_form(expected, found, address);
  if (out.first) return;
  const std::int64_t count = element_count(expected.front().entry.place.global_shape);
  ElementJudge judge(expected, found, address);
  for (std::int64_t lo = 0; lo < count && !out.first; lo += window_elements) {
    out.first = judge.judge(lo, std::min(lo + window_elements, count));
  }
  out.compared += judge.compared();
}

std::optional<Difference> find_unequal_copy(const std::vector<HeldBytes>& entries,
                                            const Difference& address) {
  check_alike(entries);
  const Dtype dtype = entries.front().entry.dtype;
  const std::int64_t count = element_count(entries.front().entry.place.global_shape);
  TensorWalk first(entries), all(entries);
  Window window;
  std::optional<Difference> out;
  for (std::int64_t lo = 0; lo < count && !out; lo += window_elements) {
    const std::int64_t hi = std::min(lo + window_elements, count);
    window.read(first, lo, hi, dtype);
    std::int64_t at = hi;
    all.until(hi, [&](std::size_t entry, const Stretch& each, const std::byte* bytes) {
      const std::int64_t bad = first_unequal(dtype, window.at(each.global), bytes, each.count);
      if (bad < 0 || each.global + bad >= at) return;
      at = each.global + bad;
      const TensorPlace& place = entries[entry].entry.place;
      const std::byte* right = bytes + static_cast<std::size_t>(bad) * size_of(dtype);
      out = address;
      out->rank = entries[entry].rank;
      out->piece = place.piece;
      out->element = elements_of(place).lo + each.local + bad;
      out->left = element_hex(dtype, window.at(at));
      out->right = element_hex(dtype, right);
      out->times =
          roundings_apart(dtype, element_value(dtype, window.at(at)), element_value(dtype, right));
      out->index = index_of(place.global_shape, at);
      out->left_ranks = {locate(entries, at).rank};
      out->right_ranks = {entries[entry].rank};
    });
  }
  return out;
}

}  // namespace shardproof
