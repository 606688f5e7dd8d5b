// state_fault: see the header.
#include "harness/state_fault.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "faults/inject/wrong_call.h"

namespace shardproof {

std::vector<FaultKind> state_kinds(Phase phase) {
  std::vector<FaultKind> kinds{FaultKind::flip_parameter, FaultKind::flip_moment};
  if (phase == Phase::forward) {
    kinds.push_back(FaultKind::nan);
    kinds.push_back(FaultKind::random_key);
  }
  if (phase == Phase::clipped) kinds.push_back(FaultKind::flip_gradient);
  if (phase == Phase::clipped) kinds.push_back(FaultKind::learning_rate);
  return kinds;
}

void change_state(Plan& plan, FaultKind kind, int bit, std::int64_t step) {
  if (kind == FaultKind::random_key) return plan.begin_step(step + 1);
  const char* what = "param";
  if (kind == FaultKind::flip_moment) what = "exp_avg";
  if (kind == FaultKind::flip_gradient) what = "grad";
  for (const StateShard& shard : plan.shards(what, true)) {
    if (shard.range.size() == 0) continue;
    auto* const element = static_cast<float*>(shard.data) + shard.range.size() / 2;
    if (kind == FaultKind::nan) {
      *element = std::numeric_limits<float>::quiet_NaN();
    } else {
      flip_bit(element, sizeof *element, bit);
    }
    return;
  }
  throw Error(ErrorKind::bad_input, std::string(name(kind)),
              fmt::format("the rank holds no {} to change", what));
}

}  // namespace shardproof
