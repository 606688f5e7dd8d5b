// ctest: unit timeout=30
#include "harness/child.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Child, KeepsOutputAndExitCode) {
  const auto result = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(10));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(Child, PassesItsEnvironment) {
  const auto result =
      run_child({"sh", "-c", "echo $SHARDPROOF_X"}, seconds(10), {{"SHARDPROOF_X", "7"}});
  EXPECT_EQ(result.output, "7\n");
}

TEST(Child, ReportsASignal) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, seconds(10)).exit_code, 128 + 9);
}

TEST(Child, EndsTheWholeGroupAtTheDeadline) {
  // The grandchild holds the pipe too: only killing the group ends both.
  const auto result = run_child({"sh", "-c", "sleep 60 & sleep 60"}, milliseconds(200));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + 9);
}

TEST(Child, EndsAChildThatClosedItsOutput) {
  const auto result = run_child({"sh", "-c", "exec >&- 2>&-; exec sleep 60"}, milliseconds(200));
  EXPECT_TRUE(result.timed_out);
}

TEST(Child, NamesAProgramThatIsNotThere) {
  try {
    run_child({"/no/such/program"}, seconds(1));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_EQ(error.place(), "/no/such/program");
  }
}

TEST(Child, KnowsItsOwnPath) {
  EXPECT_NE(own_executable().find("child"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
