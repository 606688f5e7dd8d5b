// plan: what most plans share.
#include "parallel/plan.h"

#include "base/check.h"

namespace shardproof {

Schedule Plan::schedule() const {
  SP_CHECK_EQ(chunks(), 1);
  Schedule schedule;
  for (const int m : micro_batches()) {
    schedule.push_back({ActionKind::forward, m, 0});
    schedule.push_back({ActionKind::backward, m, 0});
  }
  return schedule;
}

}  // namespace shardproof
