// cost: the operations and bytes that a call must cost, computed from shapes alone, apart from the
// code that sends. Tests and reports compare the two counts. Formulas for B bytes on k ranks:
// all_reduce 2B(k-1)/k, reduce_scatter and all_gather B(k-1)/k (Thakur, Rabenseifner, Gropp,
// "Optimization of collective communication operations in MPICH", 2005), exact for unequal shares.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/canonical.h"
#include "comm/communicator.h"

namespace shardproof {

enum class CommBackend { threads, mpi };

// Bytes that `rank` of `size` ranks makes travel for this call on this backend.
std::uint64_t predicted_bytes(const Call& call, int rank, int size, CommBackend backend);

// A call as a shape: what a recorder sees, without buffers.
struct PredictedCall {
  CallKind kind = CallKind::barrier;
  Dtype dtype = Dtype::f32;
  std::uint64_t send_elements = 0;
  std::uint64_t bytes = 0;
  bool operator==(const PredictedCall&) const = default;
};

PredictedCall predicted(const Call& call, int rank, int size, CommBackend backend);

// The calls a canonical reduction makes on `rank`.
std::vector<PredictedCall> predicted_reduce_scatter(const canonical::LeafOwners& owners,
                                                    const std::vector<std::size_t>& shares,
                                                    Dtype dtype, int rank, CommBackend backend);
// Of fp32 in shares that are balanced by elements; the group has owners.owned.size() ranks.
std::vector<PredictedCall> predicted_all_reduce(const canonical::LeafOwners& owners,
                                                std::size_t count, int rank, CommBackend backend);

}  // namespace shardproof
