// exact_sum: a sum of doubles whose result is the correctly rounded exact sum, whatever the order.
// A wide fixed-point accumulator of signed 64-bit limbs carrying 32 payload bits each (a
// superaccumulator; Kulisch 2013; Collange et al., "Numerical reproducibility for the parallel
// reduction on multi- and many-core architectures", 2015). The limbs are plain int64 addends: two
// accumulators merge by adding limb by limb, so an int64 all-reduce with sum is an exact merge.
// Limit: up to 2^30 additions in total over all merged accumulators (not checked).
// NaN and infinities are counted, and come out as IEEE addition would give them; the sum of finite
// values overflows only where the exact sum does. A zero sum is +0, even of -0 alone.
// Thread rule: one accumulator per thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace shardproof {

class ExactSum {
 public:
  // 2098 bits span the smallest subnormal to the largest double; 68 limbs leave headroom. Three
  // more count +inf, -inf and NaN.
  static constexpr std::size_t value_limbs = 68;
  static constexpr std::size_t limbs = value_limbs + 3;

  void add(double value);
  void merge(const ExactSum& other);
  double value() const;  // round to nearest even; +0 for an empty sum

  std::span<std::int64_t, limbs> raw() { return limbs_; }  // for an int64 sum over ranks
  std::span<const std::int64_t, limbs> raw() const { return limbs_; }

 private:
  std::array<std::int64_t, limbs> limbs_{};
};

}  // namespace shardproof
