// ulysses: the all-to-all form of context parallelism (Jacobs et al., "DeepSpeed Ulysses", 2023):
// before attention the ranks of a context group trade sequence pieces for tensor pieces (whole
// heads), so that each runs all sequence pieces of its share of the group's heads, and trade back
// after it. The tensor piece is the unit: an attention block has the shape and strides that it has
// on a lone rank, hence its bits. Every value travels once each way: a rank that holds B bytes of k
// equal shares sends B (k - 1) / k.
// Precondition (parallel/legality.h): every context rank gets a tensor piece. All parts have one
// shape, fp32. Errors: Error of the communicator, unchanged. Thread rule: one rank's thread.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/seams.h"

namespace shardproof {

class Ulysses {
 public:
  // Which places [s][v] of a list of parts go to, or come from, one rank.
  struct Window {
    std::size_t first_s, count_s, first_v, count_v;
  };
  using Windows = std::vector<Window>;  // by rank

  // sequence[r], tensor[r]: the sequence pieces of context rank r, and the tensor pieces whose
  // attention it runs; ascending runs of all pieces of the group.
  Ulysses(Communicator& context, std::vector<std::vector<int>> sequence,
          std::vector<std::vector<int>> tensor);

  const AttentionPieces& pieces() const { return pieces_; }  // of this rank's attention
  // See Seams::attention_scatter and attention_gather.
  std::vector<Parts> scatter(std::vector<Parts> values);
  std::vector<Parts> gather(std::vector<Parts> values);

 private:
  std::vector<Parts> trade(std::vector<Parts> values, const Windows& out, const Windows& in);

  Communicator& context_;
  Windows by_sequence_;  // the attention's parts: of each rank's sequence pieces
  Windows by_tensor_;    // the owned parts: of each rank's share of the tensor pieces
  AttentionPieces pieces_;
};

}  // namespace shardproof
