// ctest: comm timeout=120 processors=2
// bench comm: what it reports, and its exit codes. Times are only checked to be times.
#include "harness/bench/comm.h"

#include <gtest/gtest.h>

#include "harness/child.h"
#include "harness/launcher.h"

namespace shardproof::bench {
namespace {

ChildResult run_verb(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {SHARDPROOF_COMMAND, "bench"});
  return run_child(arguments, std::chrono::seconds(100));
}

Json asked(bool met) {
  return Json::array({{{"what", "it"}, {"met", met}}});
}

TEST(CommBenchStatus, FollowsWhatIsAsked) {
  EXPECT_EQ(comm_bench_status({{"mpi", "Open MPI"}, {"asked", asked(true)}}), 0);
  EXPECT_EQ(comm_bench_status({{"mpi", "Open MPI"}, {"asked", asked(false)}}), 1);
  EXPECT_EQ(comm_bench_status({{"asked", asked(false)}}), 1);
  EXPECT_EQ(comm_bench_status({{"asked", asked(true)}}), 3);
}

TEST(CommBench, MeasuresEverySizeOnEverySubject) {
  const ChildResult result = run_verb({"comm", "--quick", "--json", "--ranks", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const Json got = parse_json(result.output.substr(result.output.find('{')), "bench comm");
  EXPECT_EQ(got.at("ranks"), 2);
  const bool mpi = !find_mpirun().empty();
  EXPECT_EQ(got.contains("mpi"), mpi);
  ASSERT_EQ(got.at("rows").size(), 4u);
  for (const Json& row : got.at("rows")) {
    for (const char* subject : {"threads_us", "mpi_us", "plain_us"}) {
      if (!mpi && std::string(subject) != "threads_us") continue;
      EXPECT_GT(row.at(subject).get<double>(), 0) << subject << " of " << row.dump();
      EXPECT_LT(row.at(subject).get<double>(), 60e6) << subject << " of " << row.dump();
    }
  }
  EXPECT_EQ(got.at("asked").size(), mpi ? 2u : 1u);
}

TEST(CommBench, RefusesBadUsage) {
  EXPECT_EQ(run_verb({}).exit_code, 2);
  EXPECT_EQ(run_verb({"comm", "--ranks", "0"}).exit_code, 2);
  const ChildResult unknown = run_verb({"comm", "--bytes", "7"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.output.find("--bytes"), std::string::npos) << unknown.output;
}

}  // namespace
}  // namespace shardproof::bench
