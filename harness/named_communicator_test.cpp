// ctest: unit
// Names of a world that was split from a pool, of its children, and the ranks that they keep.
#include "harness/named_communicator.h"

#include <gtest/gtest.h>

#include "comm/thread_communicator.h"
#include "harness/rank_pool.h"

namespace shardproof {
namespace {

TEST(NamedCommunicator, ChildrenAreNamedAfterItAndRanksKeepTheirNumbers) {
  ThreadWorld threads(3);
  run_ranks(
      threads.size(),
      [&](int rank) {
        const auto pool = threads.communicator(rank);
        auto split = pool->split(rank == 0 ? -1 : 0, rank, "work", default_deadline(*pool));
        EXPECT_EQ(split == nullptr, rank == 0);
        if (rank == 0) return;
        EXPECT_EQ(split->group().name, "world/work.0");
        NamedCommunicator world(std::move(split), "world~1");
        EXPECT_EQ(world.group().name, "world~1");
        EXPECT_EQ(world.rank(), rank - 1);
        EXPECT_EQ(world.group().world_ranks, (std::vector<int>{1, 2}));
        const auto child = world.split(0, 0, "dp", default_deadline(world));
        EXPECT_EQ(child->group().name, "world~1/dp.0");
        EXPECT_EQ(child->split(0, 0, "x", default_deadline(*child))->group().name,
                  "world~1/dp.0/x.0");
        EXPECT_EQ(world.shrink("rest", default_deadline(world))->group().name, "world~1/rest");
        barrier(*child);
      },
      [&] { threads.revoke_all(); });
}

}  // namespace
}  // namespace shardproof
