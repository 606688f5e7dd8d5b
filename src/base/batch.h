// batch: one micro-batch as data hands it to the model. All arrays are row-major [rows, length].
#pragma once

#include <cstdint>
#include <vector>

namespace shardproof {

struct MicroBatch {
  static constexpr std::int32_t ignored = -1;  // a target that takes no part in the loss

  int index = 0;  // global micro-batch number within the step
  int rows = 0;
  int length = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;     // the next token, or `ignored`
  std::vector<std::int32_t> positions;   // 0..length-1; restarts at a document in packed mode
  std::vector<std::int32_t> documents;   // packed mode: document number within the row; else empty
  std::vector<std::int64_t> sample_ids;  // one per row; -1 for a row added to fill a short batch

  std::int64_t valid_tokens() const;  // targets that are not `ignored`
};

}  // namespace shardproof
