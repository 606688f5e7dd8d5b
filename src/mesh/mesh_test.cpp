// ctest: comm
#include "mesh/mesh.h"

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "comm/thread_communicator.h"

namespace shardproof {
namespace {

// Runs `body` on one thread a rank; an exception of any rank is rethrown.
void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(size, std::chrono::seconds(20));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto comm = world.communicator(rank);
        body(*comm);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
        world.revoke_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The group of `axis` that a rank must be in, by the layout alone.
std::vector<int> expected_group(const Layout& layout, Axis axis, int rank) {
  for (const auto& group : groups(layout, axis)) {
    for (const int member : group) {
      if (member == rank) return group;
    }
  }
  return {};
}

TEST(Mesh, EveryAxisHasTheGroupOfTheLayout) {
  for (const char* text : {"dp1", "dp2.tp2.pp2", "dp3.tp2", "cp2.ep3", "dp2.zero1"}) {
    SCOPED_TRACE(text);
    const Layout layout = parse_layout(text);
    on_ranks(layout.world(), [&](Communicator& world) {
      Mesh mesh(world, layout);
      EXPECT_EQ(mesh.layout(), layout);
      EXPECT_EQ(world_rank(layout, mesh.at()), world.rank());
      for (int i = 0; i < axis_count; ++i) {
        const auto axis = static_cast<Axis>(i);
        Communicator& comm = mesh.axis(axis);
        EXPECT_EQ(comm.group().world_ranks, expected_group(layout, axis, world.rank()));
        EXPECT_EQ(comm.size(), layout.degree(axis));
        EXPECT_EQ(comm.rank(), mesh.at().at(axis));
      }
    });
  }
}

TEST(Mesh, AxesAddOverTheirOwnRanks) {
  const Layout layout = parse_layout("dp2.tp2.pp2");
  on_ranks(8, [&](Communicator& world) {
    Mesh mesh(world, layout);
    for (int i = 0; i < axis_count; ++i) {
      const auto axis = static_cast<Axis>(i);
      std::int64_t sum = std::int64_t{1} << world.rank();
      all_reduce(mesh.axis(axis), &sum, &sum, 1, Dtype::i64, ReduceOp::sum);
      std::int64_t expected = 0;
      for (const int rank : expected_group(layout, axis, world.rank())) {
        expected += std::int64_t{1} << rank;
      }
      EXPECT_EQ(sum, expected) << short_name(axis) << " of rank " << world.rank();
    }
  });
}

TEST(Mesh, RefusesAnotherWorldSize) {
  on_ranks(2, [](Communicator& world) {
    expect_error(ErrorKind::bad_input, {"layout dp3", "there are 2 ranks; expected 3"},
                 [&] { Mesh(world, parse_layout("dp3")); });
  });
}

}  // namespace
}  // namespace shardproof
