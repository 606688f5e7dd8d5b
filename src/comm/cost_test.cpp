// ctest: unit
// The formulas: known values, and what must hold of the sum over all ranks.
#include "comm/cost.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace shardproof {
namespace {

Call shape(CallKind kind, std::size_t count, Dtype dtype = Dtype::f32) {
  Call call;
  call.kind = kind;
  call.count = count;
  call.dtype = dtype;
  call.peer = 0;
  return call;
}

std::uint64_t over_all_ranks(const Call& call, int size, CommBackend backend) {
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < size; ++rank) bytes += predicted_bytes(call, rank, size, backend);
  return bytes;
}

constexpr CommBackend backends[] = {CommBackend::threads, CommBackend::mpi};

TEST(PredictedBytes, AreTheTextbookFormulasForEqualShares) {
  for (const CommBackend backend : backends) {
    for (const int k : {1, 2, 3, 4, 6}) {
      const std::uint64_t bytes = 12 * 4 * 100;
      const auto ranks = static_cast<std::uint64_t>(k);
      Call call = shape(CallKind::all_reduce, bytes / 4);
      call.recv_counts.assign(ranks, bytes / 4 / ranks);
      for (int rank = 0; rank < k; ++rank) {
        call.kind = CallKind::all_reduce;
        EXPECT_EQ(predicted_bytes(call, rank, k, backend), 2 * bytes * (ranks - 1) / ranks);
        call.kind = CallKind::reduce_scatter;
        EXPECT_EQ(predicted_bytes(call, rank, k, backend), bytes * (ranks - 1) / ranks);
        call.kind = CallKind::all_gather;
        EXPECT_EQ(predicted_bytes(call, rank, k, backend), bytes * (ranks - 1) / ranks);
        call.kind = CallKind::barrier;
        EXPECT_EQ(predicted_bytes(call, rank, k, backend), 0u);
      }
    }
  }
}

TEST(PredictedBytes, OfTheTreesOfBothBackends) {
  const Call broadcast = shape(CallKind::broadcast, 10);
  EXPECT_EQ(predicted_bytes(broadcast, 0, 6, CommBackend::threads), 5u * 40);
  EXPECT_EQ(predicted_bytes(broadcast, 4, 6, CommBackend::threads), 0u);
  // Six ranks from the root: 0 -> 1, 2, 4; 2 -> 3; 4 -> 5.
  const std::uint64_t children[] = {3, 0, 1, 0, 1, 0};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(predicted_bytes(broadcast, rank, 6, CommBackend::mpi), children[rank] * 40) << rank;
    Call moved = broadcast;
    moved.peer = 4;
    EXPECT_EQ(predicted_bytes(moved, (rank + 4) % 6, 6, CommBackend::mpi), children[rank] * 40);
  }
  const Call reduce = shape(CallKind::reduce, 10, Dtype::f64);
  EXPECT_EQ(predicted_bytes(reduce, 0, 6, CommBackend::mpi), 0u);
  EXPECT_EQ(predicted_bytes(reduce, 5, 6, CommBackend::mpi), 80u);
}

TEST(PredictedBytes, OfMessagesAreTheSenders) {
  EXPECT_EQ(predicted_bytes(shape(CallKind::send, 3, Dtype::bf16), 1, 2, CommBackend::mpi), 6u);
  EXPECT_EQ(predicted_bytes(shape(CallKind::recv, 3, Dtype::bf16), 1, 2, CommBackend::mpi), 0u);
}

// Whoever is the root and however unequal: a broadcast or a reduce delivers B to k - 1 ranks, and a
// reduce-scatter and an all-gather of the same shares move the same.
RC_GTEST_PROP(PredictedBytes, AddUpToWhatMustArrive, ()) {
  const int k = *rc::gen::inRange(1, 12);
  const auto backend = *rc::gen::element(CommBackend::threads, CommBackend::mpi);
  Call call = shape(CallKind::broadcast, *rc::gen::inRange<std::size_t>(0, 1000), Dtype::f64);
  call.peer = *rc::gen::inRange(0, k);
  const std::uint64_t copies = call.count * 8 * static_cast<std::uint64_t>(k - 1);
  RC_ASSERT(over_all_ranks(call, k, backend) == copies);
  call.kind = CallKind::reduce;
  RC_ASSERT(over_all_ranks(call, k, backend) == copies);
  call.kind = CallKind::all_reduce;
  RC_ASSERT(over_all_ranks(call, k, backend) == 2 * copies);

  call.recv_counts = *rc::gen::container<std::vector<std::size_t>>(
      static_cast<std::size_t>(k), rc::gen::inRange<std::size_t>(0, 50));
  call.kind = CallKind::reduce_scatter;
  const std::uint64_t scattered = over_all_ranks(call, k, backend);
  call.kind = CallKind::all_gather;
  RC_ASSERT(over_all_ranks(call, k, backend) == scattered);
}

TEST(PredictedReduceScatter, OneCallPerSubtreeOfTheRankThatHoldsMost) {
  // Leaves 0..3 on one rank are one subtree; 1, 2 and 5 are three.
  const canonical::LeafOwners even = canonical::LeafOwners::contiguous(4, 2);
  auto calls = predicted_reduce_scatter(even, {10, 30}, Dtype::f32, 0, CommBackend::threads);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0], (PredictedCall{CallKind::all_to_all, Dtype::f32, 40, 120}));

  const canonical::LeafOwners odd{6, {{0, 3, 4}, {1, 2, 5}}};
  calls = predicted_reduce_scatter(odd, {10, 30}, Dtype::f64, 1, CommBackend::mpi);
  ASSERT_EQ(calls.size(), 3u);
  for (const auto& call : calls) EXPECT_EQ(call.bytes, 80u);

  const canonical::LeafOwners idle{2, {{0, 1}, {}}};
  calls = predicted_reduce_scatter(idle, {10, 30}, Dtype::f32, 1, CommBackend::threads);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0], (PredictedCall{CallKind::all_to_all, Dtype::f32, 0, 0}));
}

}  // namespace
}  // namespace shardproof
