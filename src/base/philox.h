// philox: random numbers as functions of (seed, purpose, step, global element index), so that
// weights and masks are the same on every layout and there is no generator state to save.
// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011; the published Random123 known-answer vectors are the test. Thread rule: pure.
#pragma once

#include <array>
#include <cstdint>

namespace shardproof {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// What a number is drawn for. Values are part of the Case's meaning: append, never renumber.
enum class Purpose : std::uint32_t {
  initial_weight = 1,
  dropout = 2,
  sample_order = 3,
  corpus = 4,
  mixture = 5,
  test = 6,
};

// One stream: element i is a pure function of (seed, purpose, stream, step, i). `stream` tells
// apart the uses of one purpose (a parameter, a dropout site); callers derive it from stable
// global names with stream_id().
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint32_t stream = 0, std::uint32_t step = 0);

  std::uint32_t bits(std::uint64_t index) const;
  double uniform(std::uint64_t index) const;  // [0, 1), 32 bits of resolution
  // Box-Muller in double, rounded to fp32 (libm differs between CPUs in the last bit of double).
  float normal(std::uint64_t index) const;
  // [0, bound), bound > 0; a value's probability is off 1 / bound by at most 2^-64.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t block_index) const;
  std::array<std::uint32_t, 2> key_;
  std::uint32_t purpose_;
  std::uint32_t stream_;
  std::uint32_t step_;
};

std::uint32_t stream_id(const char* text);  // FNV-1a, stable across builds

}  // namespace shardproof
