// conformance_values: arrays of every dtype whose sums are exact in any order (small integers, for
// floats times 1/8), with guard bytes around them, compared bit for bit. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/cost.h"

namespace shardproof::conformance {

// What the tests may expect of a backend beyond the interface.
struct Backend {
  CommBackend kind = CommBackend::threads;
  bool recovers = true;  // agree and shrink work on a broken group
};

inline constexpr Dtype all_dtypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16,
                                       Dtype::i32, Dtype::i64, Dtype::u8};
inline constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::min,
                                       ReduceOp::bit_or};

inline bool is_integer(Dtype dtype) {
  return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8;
}

inline bool allowed(ReduceOp op, Dtype dtype) {
  return op != ReduceOp::bit_or || is_integer(dtype);
}

inline std::size_t small_count() {
  return 101;
}
// More than two chunks of 1 MiB, and no multiple of anything.
inline std::size_t large_count(Dtype dtype) {
  return (std::size_t{5} << 19) / size_of(dtype) + 37;
}

// Repeats every `period` elements, which is no divisor of a chunk: a misplaced chunk shows.
inline constexpr std::size_t period = 121;
inline int integer_at(std::size_t element, int salt) {
  return static_cast<int>((element * 7 + static_cast<std::size_t>(salt) * 5 + element / 11) % 11);
}

inline int combined(ReduceOp op, int a, int b) {
  switch (op) {
    case ReduceOp::sum:
      return a + b;
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::bit_or:
      return a | b;
  }
  return 0;
}

// `count` elements between two guards. Elements are integers; floats hold the integer / 8.
class Array {
 public:
  Array(Dtype dtype, std::size_t count)
      : dtype_(dtype), count_(count), bytes_(2 * guard + count * size_of(dtype), guard_byte) {}

  Dtype dtype() const { return dtype_; }
  std::size_t count() const { return count_; }
  std::byte* at(std::size_t element) { return bytes_.data() + guard + element * size_of(dtype_); }
  std::byte* data() { return at(0); }

  void set(std::size_t element, int value) {
    const float scaled = static_cast<float>(value) / 8;
    switch (dtype_) {
      case Dtype::f32:
        return store(element, scaled);
      case Dtype::f64:
        return store(element, static_cast<double>(scaled));
      case Dtype::bf16:
        return store(element, float_to_bf16(scaled));
      case Dtype::f16:
        return store(element, float_to_f16(scaled));
      case Dtype::i32:
        return store(element, static_cast<std::int32_t>(value));
      case Dtype::i64:
        return store(element, static_cast<std::int64_t>(value));
      case Dtype::u8:
        return store(element, static_cast<std::uint8_t>(value));
    }
  }
  // Element first + i becomes value(i), which repeats every `period` elements.
  template <typename Value>
  void fill(std::size_t first, std::size_t count, const Value& value) {
    for (std::size_t i = 0; i < std::min(count, period); ++i) set(first + i, value(i));
    for (std::size_t done = period; done < count; done *= 2) {
      std::memcpy(at(first + done), at(first), std::min(done, count - done) * size_of(dtype_));
    }
  }

  // One failure for the first differing byte, guards included.
  void expect_equal(const Array& wanted, const std::string& what) const {
    ASSERT_EQ(bytes_.size(), wanted.bytes_.size()) << what;
    if (std::memcmp(bytes_.data(), wanted.bytes_.data(), bytes_.size()) == 0) return;
    const auto difference =
        std::mismatch(bytes_.begin(), bytes_.end(), wanted.bytes_.begin()).first - bytes_.begin();
    const auto offset = difference - static_cast<std::ptrdiff_t>(guard);
    ADD_FAILURE() << what << ": byte " << offset << " (element "
                  << offset / static_cast<std::ptrdiff_t>(size_of(dtype_)) << " of " << count_
                  << ") differs";
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr std::byte guard_byte{0xA5};
  template <typename T>
  void store(std::size_t element, T value) {
    std::memcpy(at(element), &value, sizeof value);
  }
  Dtype dtype_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

inline std::string describe(const Communicator& comm, const Call& call, std::size_t count,
                            bool in_place) {
  return comm.group().name + " rank " + std::to_string(comm.rank()) + ": " +
         std::string(name(call.kind)) + " " + std::string(name(call.op)) + " " +
         std::string(name(call.dtype)) + " x " + std::to_string(count) +
         (in_place ? " in place" : "");
}

// Runs the call and compares the bytes counted where they are sent with the formula.
inline void run_counted(Communicator& comm, const Backend& backend, const Call& call) {
  const Traffic before = comm.traffic();
  comm.run(call, default_deadline(comm));
  const Traffic after = comm.traffic();
  EXPECT_EQ(after.bytes_sent - before.bytes_sent,
            predicted_bytes(call, comm.rank(), comm.size(), backend.kind))
      << describe(comm, call, call.count, false);
  EXPECT_EQ(after.calls - before.calls, 1u);
}

// The kind of Error that `action` throws; a failure when it throws none.
template <typename Action>
ErrorKind kind_of_error(const Action& action, const std::string& what) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << what << ": no Error was thrown";
  return ErrorKind::numeric;  // no communicator throws this kind
}

}  // namespace shardproof::conformance
