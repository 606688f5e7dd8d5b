// ctest: unit
#include "harness/cli/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace shardproof {
namespace {

TEST(Environment, ReadsWhatTheProcessHas) {
  setenv("SHARDPROOF_ENVIRONMENT_TEST", "a=b", 1);
  EXPECT_EQ(read_environment().at("SHARDPROOF_ENVIRONMENT_TEST"), "a=b");
}

TEST(Environment, KnowsItsParallelStarter) {
  EXPECT_FALSE(started_as({}).has_value());
  EXPECT_FALSE(started_as({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_FALSE(started_as({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}})) << "a shell, not a task";
  for (const auto& [world, rank] :
       {std::pair("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        std::pair("PMI_SIZE", "PMI_RANK"), std::pair("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")}) {
    const auto started = started_as({{world, "4"}, {rank, "3"}});
    ASSERT_TRUE(started.has_value()) << world;
    EXPECT_EQ(started->rank, 3);
    EXPECT_EQ(started->world, 4);
  }
}

TEST(Environment, AWorldOfOneHasAStarterToo) {
  EXPECT_TRUE(has_starter({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(has_starter({{"PMI_SIZE", "4"}}));
  EXPECT_TRUE(has_starter({{"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(has_starter({{"SLURM_NTASKS", "4"}, {"HOME", "/"}}));
}

TEST(Environment, AFaultThatWouldNotFireIsRefused) {
  EXPECT_NO_THROW(refuse_fault_variable({{"HOME", "/"}}, "accept"));
  EXPECT_NO_THROW(refuse_fault_variable({{"SHARDPROOF_FAULT", ""}}, "accept"));
  try {
    refuse_fault_variable({{"SHARDPROOF_FAULT", "1:2:backward:kill"}}, "layouts");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.place(), "SHARDPROOF_FAULT");
    EXPECT_NE(error.detail().find("layouts"), std::string::npos) << error.what();
  }
}

TEST(Environment, NamesAVariableThatIsNoNumber) {
  try {
    started_as({{"PMI_SIZE", "four"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.place(), "PMI_SIZE");
  }
}

}  // namespace
}  // namespace shardproof
