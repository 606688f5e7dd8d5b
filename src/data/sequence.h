// sequence: which samples the world takes in each step, walking the order of one epoch after the
// other. A step is a function of the cursor before it. Thread rule: none; the owner serialises
// calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/loader.h"
#include "data/order.h"

namespace shardproof {

constexpr std::int64_t filled_row = -1;  // in place of a sample id, where the epoch has ended

// What the world takes in one step, and the position after it.
struct StepPlan {
  std::vector<std::int64_t> ids;  // M x rows
  DataCursor after;
};

class Sequence {
 public:
  Sequence(std::int64_t size, const LoaderConfig& config);

  StepPlan take(const DataCursor& from);
  // Error refused unless the cursor is a whole number of steps into an epoch, or at its end.
  void check(const DataCursor& cursor) const;

 private:
  const std::int64_t size_;
  const std::uint64_t seed_;
  const LastBatch last_;
  const std::int64_t step_;  // samples of a global batch
  std::optional<EpochOrder> order_;
  std::int64_t order_epoch_ = 0;
};

}  // namespace shardproof
