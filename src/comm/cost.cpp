// cost: formulas only. Nothing here calls, or is called by, the code that sends.
#include "comm/cost.h"

#include <algorithm>

#include "base/check.h"

namespace shardproof {

namespace {

using Bytes = std::uint64_t;

Bytes total(const std::vector<std::size_t>& counts) {
  Bytes sum = 0;
  for (const std::size_t count : counts) sum += count;
  return sum;
}

// Children of a rank in the binomial tree of `size` ranks, counted from the root: a node whose
// lowest set bit is b (all bits for the root) has a child at distance 1, 2, 4 ... below b.
Bytes binomial_children(int relative, int size) {
  Bytes children = 0;
  for (int distance = 1; distance < size; distance *= 2) {
    if (relative % (2 * distance) != 0) break;
    if (relative + distance < size) ++children;
  }
  return children;
}

Bytes broadcast_copies(int rank, int root, int size, CommBackend backend) {
  switch (backend) {
    case CommBackend::threads:
      return rank == root ? static_cast<Bytes>(size - 1) : 0;
    case CommBackend::mpi:
      return binomial_children((rank - root + size) % size, size);
  }
  SP_CHECK(false, "no such backend");
}

// Elements of rank r when `count` are shared out as evenly as can be by position.
Bytes even_share(Bytes count, int rank, int size) {
  const auto r = static_cast<Bytes>(rank);
  const auto k = static_cast<Bytes>(size);
  return count * (r + 1) / k - count * r / k;
}

Bytes predicted_elements(const Call& call, int rank, int size, CommBackend backend) {
  const auto others = static_cast<Bytes>(size - 1);
  const auto r = static_cast<std::size_t>(rank);
  switch (call.kind) {
    case CallKind::barrier:
    case CallKind::recv:
      return 0;
    case CallKind::send:
      return call.count;
    case CallKind::broadcast:
      return call.count * broadcast_copies(rank, call.peer, size, backend);
    case CallKind::reduce:
      return rank == call.peer ? 0 : call.count;
    case CallKind::all_reduce: {
      // A reduce-scatter of everything but the own share, then an all-gather of the own share.
      const Bytes own = even_share(call.count, rank, size);
      return (call.count - own) + own * others;
    }
    case CallKind::reduce_scatter:
      return total(call.recv_counts) - call.recv_counts[r];
    case CallKind::all_gather:
      return call.recv_counts[r] * others;
    case CallKind::all_to_all:
      return total(call.send_counts) - call.send_counts[r];
  }
  SP_CHECK(false, "no such call kind");
}

}  // namespace

std::uint64_t predicted_bytes(const Call& call, int rank, int size, CommBackend backend) {
  return predicted_elements(call, rank, size, backend) * size_of(call.dtype);
}

PredictedCall predicted(const Call& call, int rank, int size, CommBackend backend) {
  return {call.kind, call.dtype, call.send_elements(rank),
          predicted_bytes(call, rank, size, backend)};
}

std::vector<PredictedCall> predicted_reduce_scatter(const canonical::LeafOwners& owners,
                                                    const std::vector<std::size_t>& shares,
                                                    Dtype dtype, int rank, CommBackend backend) {
  std::size_t rounds = 0;
  for (int r = 0; r < static_cast<int>(owners.owned.size()); ++r) {
    rounds = std::max(rounds, owners.subtrees(r).size());
  }
  const std::size_t held = owners.subtrees(rank).size();
  std::vector<PredictedCall> calls;
  for (std::size_t round = 0; round < rounds; ++round) {
    Call call;
    call.kind = CallKind::all_to_all;
    call.dtype = dtype;
    call.send_counts = round < held ? shares : std::vector<std::size_t>(shares.size(), 0);
    calls.push_back(predicted(call, rank, static_cast<int>(shares.size()), backend));
  }
  return calls;
}

std::vector<PredictedCall> predicted_all_reduce(const canonical::LeafOwners& owners,
                                                std::size_t count, int rank, CommBackend backend) {
  const int ranks = static_cast<int>(owners.owned.size());
  Call gather;
  gather.kind = CallKind::all_gather;
  for (int r = 0; r < ranks; ++r) gather.recv_counts.push_back(even_share(count, r, ranks));
  auto calls = predicted_reduce_scatter(owners, gather.recv_counts, Dtype::f32, rank, backend);
  calls.push_back(predicted(gather, rank, ranks, backend));
  return calls;
}

}  // namespace shardproof
