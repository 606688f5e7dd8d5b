// order: the sample order of an epoch, a permutation of [0, size) that is a function of (seed,
// epoch). Each index is computed by itself: a Feistel network (Luby, Rackoff, 1988) over the
// smallest even number of bits, walked until the value falls below size (Black, Rogaway, "Ciphers
// with arbitrary finite domains", 2002). Thread rule: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace shardproof {

class EpochOrder {
 public:
  EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch);
  std::int64_t at(std::int64_t index) const;  // precondition: 0 <= index < size

 private:
  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_ = 1;
  std::vector<Random> rounds_;
};

}  // namespace shardproof
