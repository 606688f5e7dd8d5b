// ctest: fault timeout=90 processors=2 lock=mpi
// A real SIGKILL of one MPI rank of four: the survivors learn who died, agree, shrink and go on.
// The verdict is what the ranks say, since mpirun exits 0 after a death it tolerates. This
// executable is also the rank (--rank MODE).
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>

#include "base/error.h"
#include "comm/mpi_communicator.h"
#include "harness/child.h"
#include "harness/control.h"
#include "harness/launcher.h"
#include "harness/launcher_testing.h"

namespace shardproof {
namespace {

constexpr int victim = 2;

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorKind::mismatch, "survivor", what);
}

std::int64_t sum_of_ranks(Communicator& comm, std::int64_t mine) {
  std::int64_t sum = 0;
  all_reduce(comm, &mine, &sum, 1, Dtype::i64, ReduceOp::sum);
  return sum;
}

// Waits for the victim, in one of the ways a rank can; returns the Error that ended the wait.
Error wait_for_victim(const std::string& mode, Communicator& world, Communicator& pair) {
  std::vector<float> data(std::size_t{1} << 20, 1.0f);
  Call call;
  call.kind = CallKind::all_reduce;
  call.send = call.recv = data.data();
  call.count = mode == "large" ? data.size() : 1;
  try {
    if (mode == "started") {
      world.start(call, nullptr)->wait(default_deadline(world));
    } else if (mode == "child" && world.rank() != 1) {
      barrier(pair);  // rank 1, alive, does not come: it revokes the world
    } else {
      world.run(call, default_deadline(world));
    }
  } catch (const Error& error) {
    return error;
  }
  throw Error(ErrorKind::mismatch, "survivor", "the wait ended as if nobody had died");
}

ErrorKind kind_of_barrier(Communicator& comm) {
  try {
    barrier(comm);
  } catch (const Error& error) {
    return error.kind();
  }
  throw Error(ErrorKind::mismatch, "survivor", "a call on the broken group went through");
}

void survive(const std::string& mode, Communicator& world, Communicator& pair) {
  const Error error = wait_for_victim(mode, world, pair);
  // Here a revocation by another survivor may be faster than the news of the death.
  const bool revocations = mode == "child";
  if (error.kind() == ErrorKind::peer_died) {
    require(error.world_rank() == victim, "another rank was named");
    require(!revocations || world.rank() != 0, "a group without a dead member said peer_died");
  } else {
    require(revocations && error.kind() == ErrorKind::revoked, error.what());
  }
  if (mode == "child") world.revoke();
  require(world.poisoned(), "poisoned");
  const ErrorKind again = kind_of_barrier(world);
  require(again == ErrorKind::peer_died || (revocations && again == ErrorKind::revoked),
          "a call on the broken group: " + std::string(name(again)));
  const std::uint64_t bit = std::uint64_t{1} << (world.rank() * 20);
  const std::uint64_t all = 1 | (std::uint64_t{1} << 20) | (std::uint64_t{1} << 60);
  require(world.agree(bit, default_deadline(world)) == all, "agree");
  require(world.failed_ranks() == std::vector<int>{victim}, "failed_ranks after an agreement");
  require(kind_of_barrier(world) == ErrorKind::peer_died, "a call after the agreement");
  const auto rest = world.shrink("rest", default_deadline(world));
  require(rest->group().world_ranks == std::vector<int>({0, 1, 3}), "the group of survivors");
  require(sum_of_ranks(*rest, world.rank()) == 4, "the sum of survivors");
  require(rest->failed_ranks().empty() && !rest->poisoned(), "the new group is broken");
  std::cout << "recovered" << std::endl;
}

int rank_main(const std::string& mode, std::map<std::string, std::string> variables) {
  const int rank = std::stoi(variables["OMPI_COMM_WORLD_RANK"]);
  ControlClient control(variables["SHARDPROOF_CONTROL"], variables["SHARDPROOF_CONTROL_TOKEN"],
                        rank);
  int code = 0;
  try {
    MpiWorld mpi(std::chrono::seconds(20));
    const auto world = mpi.communicator();
    const auto pair = world->split(rank / 2, rank, "pair", default_deadline(*world));
    require(sum_of_ranks(*world, rank) == 6, "the sum of all");
    if (rank == victim) raise(SIGKILL);
    survive(mode, *world, *pair);
  } catch (const Error& error) {
    control.error(error.what());
    code = 1;
  }
  control.done(code);
  return code;
}

class MpiDeath : public testing::TestWithParam<const char*> {};

TEST_P(MpiDeath, SurvivorsAreToldAndGoOn) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  std::vector<std::string> output;
  LaunchRequest request;
  request.ranks = 4;
  request.command = {own_executable(), "--rank", GetParam()};
  request.deadline = std::chrono::seconds(60);
  request.on_output = [&](int rank, const std::string& line) {
    output.push_back(std::to_string(rank) + ": " + line);
  };
  const LaunchResult result = launch(request);
  std::string text;
  for (const std::string& line : output) text += line + "\n";
  EXPECT_FALSE(result.timed_out) << text;
  ASSERT_TRUE(result.first_death) << text;
  EXPECT_EQ(result.first_death->rank, victim);
  for (const int survivor : {0, 1, 3}) {
    const RankEnd& end = result.ranks[static_cast<std::size_t>(survivor)];
    EXPECT_TRUE(end.finished);
    EXPECT_EQ(end.exit_code, 0) << "rank " << survivor << ": " << end.error << "\n" << text;
    EXPECT_EQ(std::count(output.begin(), output.end(), std::to_string(survivor) + ": recovered"),
              1);
  }
}

INSTANTIATE_TEST_SUITE_P(Waits, MpiDeath, testing::Values("small", "large", "started", "child"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv, char** environment) {
  if (argc == 3 && std::string(argv[1]) == "--rank") {
    return shardproof::rank_main(argv[2], shardproof::launcher_testing::variables_of(environment));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
