// ctest: peer timeout=300 processors=2
// `accept --subject` on a C++ program on MPI: killed, stopped, resumed and cut otherwise it passes,
// and its mistake does not.
#include "harness/subjects/accept_testing.h"

namespace shardproof {
namespace {

TEST(AcceptMpi, PassesAProgramAndKillsItsMistake) {
  const std::vector<Row> rows = accept("mpi.toml");
  EXPECT_EQ(count(rows, "expected-fail"), 1);
  EXPECT_EQ(count(rows, "pass"), 27);
  EXPECT_EQ(rows.size(), 28u);
}

}  // namespace
}  // namespace shardproof
