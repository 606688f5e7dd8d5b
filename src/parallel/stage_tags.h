// stage_tags: the tag of a message between pipeline stages, from what it carries: which way it
// goes, over which boundary, which micro-batch and sequence piece. Two ranks may so be on different
// chunks and micro-batches. Micro-batches far apart may share a tag: they ascend on both sides
// (schedule.h) and messages of one tag match in order.
// Torch-free. Thread rule: values.
#pragma once

#include <cstdint>

namespace shardproof {

class StageTags {
 public:
  static constexpr std::int64_t limit = 1 << 20;  // tags are below this (communicator.h)

  static bool fit(std::int64_t stages, std::int64_t sequence_pieces) {
    return 2 * stages * sequence_pieces <= limit;
  }

  // Precondition: fit(stages, sequence_pieces).
  StageTags(int stages, int sequence_pieces)
      : pieces_(sequence_pieces),
        window_(static_cast<int>(limit / (std::int64_t{2} * stages * sequence_pieces))) {}

  // Boundary q is between the virtual stages q and q + 1.
  int of(bool back, int boundary, int micro_batch, int sequence_piece) const {
    const int way = (2 * boundary + (back ? 1 : 0)) * pieces_ + sequence_piece;
    return way * window_ + micro_batch % window_;
  }

 private:
  int pieces_;
  int window_;  // micro-batches with tags of their own
};

}  // namespace shardproof
