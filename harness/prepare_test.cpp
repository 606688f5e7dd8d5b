// ctest: unit
#include "harness/prepare.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/expect_error.h"
#include "harness/world.h"

namespace shardproof {
namespace {

Config with_layout(const std::string& layout) {
  Config config;
  config.training.global_batch = 1 << 20;
  config.training.micro_batch = 1;
  config.run.layout = layout;
  return config;
}

TEST(Prepare, MoreRanksThanAMachineTakesAreRefusedBeforeAnyStarts) {
  EXPECT_NO_THROW(check_world_size(with_layout("dp512")));
  for (const char* backend : {"threads", "mpi"}) {
    RunRequest request;
    request.config = with_layout("dp99999");
    request.config.run.backend = backend;
    expect_error(ErrorKind::bad_input,
                 {"run.layout", "dp99999 needs 99999 ranks", "at most 512 on one machine"},
                 [&] { run(request); });
  }
}

TEST(Prepare, CopiesOfAModelOnOneMachineMustFitTogether) {
  Config config = with_layout("dp512");
  config.model.width = 8192;
  config.model.layers = 16;
  expect_error(ErrorKind::environment, {"model", "need more than"},
               [&] { check_memory(config, true); });
  config.model.width = 32;
  EXPECT_NO_THROW(check_memory(config, true));
}

TEST(Prepare, PathsOfDataAreMadeAbsolute) {
  Config config;
  config.data.path = "a.txt";
  config.data.sources = {{"a", 1, "text", "b/../c.txt", 4096}, {"b", 1, "text", "/d.txt", 4096}};
  const std::string here = std::filesystem::current_path();
  const Config settled = usable_anywhere(config);
  EXPECT_EQ(settled.data.path, here + "/a.txt");
  EXPECT_EQ(settled.data.sources[0].path, here + "/c.txt");
  EXPECT_EQ(settled.data.sources[1].path, "/d.txt");
  EXPECT_EQ(config_digest(settled), config_digest(config));
}

TEST(Prepare, EveryLegalDeadlineIsADuration) {
  Config config;
  config.run.deadline = 86400;
  EXPECT_EQ(wait_limit(config), std::chrono::hours(24));
  config.run.deadline = 0.5;
  EXPECT_EQ(wait_limit(config), std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace shardproof
