// piece_batch: one micro-batch cut into sequence pieces for the model: flat ids per piece, in row
// order (row, position), and the attention masks of packed documents.
// Errors: Error bad_input for a token, target or position outside the model; SP_CHECK for arrays
// whose sizes do not fit the shape. Thread rule: values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/batch.h"
#include "model/attention.h"
#include "model/gpt_shape.h"

namespace shardproof {

struct PieceBatch {
  MicroBatch batch;
  std::int64_t rows = 0;
  std::int64_t length = 0;  // of a sequence piece
  // By sequence piece 0..S-1: [rows x length].
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<std::int32_t>> positions;
  std::vector<std::vector<std::int32_t>> targets;
  BlockMasks masks;  // packed mode; filled by the model once the dtype is known
};

PieceBatch cut_batch(const MicroBatch& batch, const GptShape& shape);

}  // namespace shardproof
