// mesh_pieces: which tensor and sequence pieces the ranks of a layout own: pure arithmetic, used by
// the seams that exchange pieces and by the plan that reduces their gradients.
// tp cuts V and cp cuts S into balanced contiguous runs; cp-zigzag cuts S into 2 cp runs and gives
// rank c the runs c and 2 cp - 1 - c, so that causal attention costs every rank about the same;
// cp-ulysses cuts S like cp, and deals the tensor pieces of a tensor rank to its context group in
// balanced runs for attention alone.
// Under sp the sequence pieces of a context rank are dealt to its tensor group in balanced runs.
// Thread rule: values.
#pragma once

#include <vector>

#include "comm/canonical.h"
#include "mesh/layout.h"

namespace shardproof {

canonical::LeafOwners micro_batch_owners(const Layout& layout, int micro_batches);  // by dp rank
canonical::LeafOwners tensor_owners(const Layout& layout, int tensor_pieces);       // by tp rank
canonical::LeafOwners sequence_owners(const Layout& layout, int sequence_pieces);   // by cp rank

// The tensor pieces of tensor rank `tp_rank` whose attention each cp rank runs: all of them, or its
// share under cp-ulysses, where that rank runs them for every sequence piece of the context group.
std::vector<std::vector<int>> attention_tensor_pieces(const Layout& layout, int tensor_pieces,
                                                      int tp_rank);

// The residual pieces of every tp rank of context rank `cp_rank`: all its sequence pieces, or its
// share of them under sp.
std::vector<std::vector<int>> residual_pieces(const Layout& layout, int sequence_pieces,
                                              int cp_rank);
// Under sp: whose gradients of whole parameters are for which sequence pieces, by the rank
// cp_rank * tp + tp_rank.
canonical::LeafOwners residual_owners(const Layout& layout, int sequence_pieces);

}  // namespace shardproof
