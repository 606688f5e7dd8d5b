// trajectory: one digest of all that a run did, the same on any layout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/digest.h"
#include "invariants/compare.h"
#include "invariants/tensor_grid.h"
#include "trace/missing.h"

namespace shardproof {

std::string trajectory_digest(const Trace& trace) {
  Sha256 sha;
  const auto add_state = [&](std::int64_t step) {
    for (const char* what : {"grad", "param", "moment"}) {
      for (const auto& [key, held] : digests_at(trace, step, what)) {
        sha.update(fmt::format("{} {} {} {} {} {} {} {}\n", what, key.name,
                               fmt::join(key.offsets, ","), fmt::join(key.shape, ","), key.lo,
                               key.hi, name(held.front().dtype), held.front().digest));
      }
    }
  };
  add_state(-1);
  for (const std::int64_t step : trace.step_numbers()) {
    for (const RankTrace& rank : trace.ranks) {
      const StepRecord* record = rank.find_step(step);
      if (record == nullptr) continue;
      sha.update(fmt::format("step {} {} {} {} {}\n", step, scalar_bits(record->loss),
                             scalar_bits(record->grad_norm), scalar_bits(record->lr),
                             record->skipped));
      // What is missing reads as NaN, and a NaN is another thing.
      for (const std::string& key : missing_keys(*record)) {
        sha.update(fmt::format("missing {}\n", key));
      }
      break;  // that all ranks agree is another check's business
    }
    sha.update(fmt::format("samples {}\n", fmt::join(world_samples(trace, step), ",")));
    add_state(step);
  }
  return sha.finish().hex();
}

}  // namespace shardproof
