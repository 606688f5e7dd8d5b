// ctest: unit
#include "parallel/step_scalars.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>

#include "comm/canonical.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

double add(double left, double right) {
  return left + right;
}

// The micro-batches over the ranks (`kind` 0), the sequence pieces (1), or everything on the last
// rank (2), as where others only repeat its work.
std::vector<LossOwner> owners_of(int micro_batches, int pieces, int ranks, int kind) {
  const auto all = [](int n) { return canonical::LeafOwners::contiguous(n, 1).owned[0]; };
  std::vector<LossOwner> owners(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < owners.size(); ++r) {
    if (kind == 0) {
      owners[r] = {canonical::LeafOwners::contiguous(micro_batches, ranks).owned[r], all(pieces)};
    } else if (kind == 1) {
      owners[r] = {all(micro_batches), canonical::LeafOwners::contiguous(pieces, ranks).owned[r]};
    } else if (r + 1 == owners.size()) {
      owners[r] = {all(micro_batches), all(pieces)};
    }
  }
  return owners;
}

RC_GTEST_PROP(StepScalars, AreTheTreeAndTheExactSumOnEveryRank, ()) {
  const int ranks = *rc::gen::inRange(1, 6);
  const int micro_batches = *rc::gen::inRange(1, 14);
  const int pieces = *rc::gen::inRange(1, 5);
  const auto losses = *rc::gen::container<std::vector<double>>(
      static_cast<std::size_t>(micro_batches * pieces), rc::gen::arbitrary<double>());
  const auto squares = *rc::gen::container<std::vector<double>>(
      static_cast<std::size_t>(ranks), rc::gen::map(rc::gen::arbitrary<double>(), [](double v) {
        return std::isfinite(v) ? std::abs(v) : 1.0;
      }));
  const auto loss = [&](int m, int s) { return losses[static_cast<std::size_t>(m * pieces + s)]; };

  std::map<Node, double> tree;
  for (int m = 0; m < micro_batches; ++m) {
    std::map<Node, double> leaves;
    for (int s = 0; s < pieces; ++s) leaves[{s, s + 1}] = loss(m, s);
    tree[{m, m + 1}] = *tree_sum(leaves, 0, pieces, add);
  }
  const double expected = *tree_sum(tree, 0, micro_batches, add);
  ExactSum all;
  for (const double square : squares) all.add(square);

  std::vector<StepTotals> totals(static_cast<std::size_t>(ranks));
  const auto owners = owners_of(micro_batches, pieces, ranks, *rc::gen::inRange(0, 3));
  on_thread_ranks(ranks, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    StepScalars scalars(micro_batches, pieces, owners, comm.rank());
    std::vector<LossLeaf> mine;
    for (const int m : owners[rank].micro_batches) {
      for (const int s : owners[rank].sequence_pieces) mine.push_back({m, s, loss(m, s), 1});
    }
    ExactSum square;
    square.add(squares[rank]);
    totals[rank] =
        scalars.exchange(comm, {mine, comm.rank() + 1, comm.rank() == ranks - 1}, square);
  });
  for (const StepTotals& total : totals) {
    RC_ASSERT(std::bit_cast<std::uint64_t>(total.loss_sum) ==
              std::bit_cast<std::uint64_t>(expected));
    RC_ASSERT(total.grad_norm == std::sqrt(all.value()));
    RC_ASSERT(total.memory_max == ranks);
    RC_ASSERT(total.memory_mean == (ranks + 1) / 2);
    RC_ASSERT(total.stop);
  }
}

TEST(StepScalarsDeathTest, RefusesLeavesThatAreNotItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ThreadWorld world(1);
  const auto comm = world.communicator(0);
  StepScalars scalars(2, 1, {{{0, 1}, {0}}}, 0);
  const std::vector<LossLeaf> missing{{0, 0, 1.0, 1}};
  EXPECT_DEATH(scalars.exchange(*comm, {missing, 0, false}, {}), "1 vs 2");
  const std::vector<LossLeaf> swapped{{1, 0, 1.0, 1}, {0, 0, 1.0, 1}};
  EXPECT_DEATH(scalars.exchange(*comm, {swapped, 0, false}, {}), "1 vs 0");
}

}  // namespace
}  // namespace shardproof
