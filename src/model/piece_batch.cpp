// Cutting and checking a micro-batch.
#include "model/piece_batch.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

void check_ids(const MicroBatch& batch, const char* what, const std::vector<std::int32_t>& ids,
               std::int32_t least, std::int32_t most) {
  SP_CHECK_EQ(ids.size(), static_cast<std::size_t>(batch.rows) * batch.length);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < least || ids[i] > most) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("micro-batch {}, row {}, column {}", batch.index, i / batch.length,
                              i % batch.length),
                  fmt::format("{} is {}; expected {} to {}", what, ids[i], least, most));
    }
  }
}

std::vector<std::vector<std::int32_t>> cut_columns(const MicroBatch& batch,
                                                   const std::vector<std::int32_t>& ids,
                                                   int pieces) {
  const int length = batch.length / pieces;
  std::vector<std::vector<std::int32_t>> cut(static_cast<std::size_t>(pieces));
  for (int s = 0; s < pieces; ++s) {
    auto& piece = cut[static_cast<std::size_t>(s)];
    piece.reserve(static_cast<std::size_t>(batch.rows) * length);
    for (int row = 0; row < batch.rows; ++row) {
      const auto from = ids.begin() + row * batch.length + s * length;
      piece.insert(piece.end(), from, from + length);
    }
  }
  return cut;
}

}  // namespace

PieceBatch cut_batch(const MicroBatch& batch, const GptShape& shape) {
  SP_CHECK(batch.rows > 0, "a micro-batch without rows");
  SP_CHECK_EQ(batch.length, shape.sequence);
  check_ids(batch, "token", batch.tokens, 0, shape.vocabulary - 1);
  check_ids(batch, "target", batch.targets, MicroBatch::ignored, shape.vocabulary - 1);
  check_ids(batch, "position", batch.positions, 0, shape.sequence - 1);
  if (shape.packed) SP_CHECK_EQ(batch.documents.size(), batch.tokens.size());
  return {batch,
          batch.rows,
          batch.length / shape.sequence_pieces,
          cut_columns(batch, batch.tokens, shape.sequence_pieces),
          cut_columns(batch, batch.positions, shape.sequence_pieces),
          cut_columns(batch, batch.targets, shape.sequence_pieces),
          {}};
}

}  // namespace shardproof
