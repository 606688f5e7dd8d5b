// ctest: unit timeout=60
// shardproof_trace.h in a program of C99: what it writes is what the reader reads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/temp_folder.h"
#include "harness/sweep/command.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

using Environment = std::map<std::string, std::string>;

// The program as rank 1 of 2.
CommandResult run_program(Environment environment) {
  environment["OMPI_COMM_WORLD_RANK"] = "1";
  environment["OMPI_COMM_WORLD_SIZE"] = "2";
  return run_command({{SHARDPROOF_C99_PROGRAM}, environment}, std::chrono::seconds(30));
}

TEST(CEmitter, WritesEventsThatTheReaderReads) {
  const TempFolder folder;
  const std::string made = folder.file("made");  // by the program
  const CommandResult done = run_program({{"SHARDPROOF_TRACE", made}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(made);
  ASSERT_EQ(trace.ranks.size(), 1u);
  const RankTrace& rank = trace.ranks.front();
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world, 2);
  EXPECT_EQ(rank.runs, 1);
  EXPECT_EQ(rank.run["data"]["size"], 8);
  EXPECT_EQ(rank.run["code"].get<std::string>().substr(0, 6), "fnv1a:");
  ASSERT_EQ(rank.steps.size(), 1u);
  EXPECT_EQ(rank.steps[0].loss, 0.1);
  EXPECT_TRUE(std::isnan(rank.steps[0].grad_norm));
  EXPECT_EQ(rank.steps[0].lr, 1e-3);
  EXPECT_EQ(rank.steps[0].tokens, 5);
  EXPECT_EQ(rank.steps[0].samples, (std::vector<std::int64_t>{7, 3}));
  ASSERT_EQ(rank.checkpoints.size(), 2u);
  EXPECT_EQ(rank.checkpoints[0].path, "a\\b\t");
  EXPECT_FALSE(rank.checkpoints[0].done);
  EXPECT_TRUE(rank.checkpoints[1].done);
  EXPECT_EQ(rank.last_at->phase, "save");
  EXPECT_EQ(rank.ended, 1);
  EXPECT_FALSE(rank.torn);
  EXPECT_TRUE(trace.files.empty()) << "no step was asked for";
}

TEST(CEmitter, WritesTensorsWholeAndInParts) {
  const TempFolder folder;
  const CommandResult done =
      run_program({{"SHARDPROOF_TRACE", folder.path()}, {"SHARDPROOF_TENSORS", "3,-1"}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.files.size(), 1u) << "step 0 was not asked for";
  EXPECT_EQ(trace.files[0].step, -1);
  EXPECT_EQ(trace.files[0].what, "param");
  const TensorFile file = TensorFile::open(trace.files[0].path);
  ASSERT_EQ(file.entries().size(), 2u) << "one has no part here";
  std::map<std::string, TensorFile::Entry> entries;
  for (const auto& entry : file.entries()) entries[entry.place.name] = entry;
  const auto& whole = entries.at("bias");
  EXPECT_EQ(whole.dtype, Dtype::f32);
  EXPECT_EQ(whole.place.global_shape, Shape{2});
  EXPECT_EQ(whole.place.box.offsets, Shape{0});
  const auto& part = entries.at("odd \"name\"");
  EXPECT_EQ(part.dtype, Dtype::f64);
  EXPECT_EQ(part.place.global_shape, (Shape{2, 3}));
  EXPECT_EQ(part.place.box.offsets, (Shape{1, 0}));
  EXPECT_EQ(part.place.box.shape, (Shape{1, 3}));
  const double expected[] = {3, 4, 5};
  ASSERT_EQ(part.bytes.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(part.bytes.data(), expected, sizeof expected), 0);
}

TEST(CEmitter, KeepsToTheNamesThatAreAskedFor) {
  const TempFolder folder;
  const CommandResult done = run_program({{"SHARDPROOF_TRACE", folder.path()},
                                          {"SHARDPROOF_TENSORS", "all"},
                                          {"SHARDPROOF_MATCH", "^bi"}});
  ASSERT_EQ(done.exit_code, 0) << done.output;
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.files.size(), 2u);
  for (const TensorFileRef& each : trace.files) {
    const TensorFile file = TensorFile::open(each.path);
    ASSERT_EQ(file.entries().size(), 1u);
    EXPECT_EQ(file.entries()[0].place.name, "bias");
  }
}

TEST(CEmitter, DiesWhereItIsTold) {
  const TempFolder folder;
  const CommandResult done =
      run_program({{"SHARDPROOF_TRACE", folder.path()}, {"SHARDPROOF_FAULT", "1:0:clipped:kill"}});
  EXPECT_EQ(done.exit_code, 128 + 9);
  const Trace trace = read_trace(folder.path());
  ASSERT_TRUE(trace.ranks.front().last_at);
  EXPECT_EQ(trace.ranks.front().last_at->phase, "clipped");
  EXPECT_FALSE(trace.ranks.front().ended);
  const TempFolder other;
  const CommandResult lives =
      run_program({{"SHARDPROOF_TRACE", other.path()}, {"SHARDPROOF_FAULT", "0:0:clipped:kill"}});
  EXPECT_EQ(lives.exit_code, 0) << "the fault is another rank's";
}

TEST(CEmitter, SaysWhatItCannotWrite) {
  const CommandResult done = run_program({{"SHARDPROOF_TRACE", "/proc/no/such"}});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.output.find("shardproof_trace: /proc/no/such: mkdir"), std::string::npos)
      << done.output;
}

TEST(CEmitter, DoesNothingUnasked) {
  const TempFolder folder;
  const CommandResult done = run_command(
      {{"/bin/sh", "-c", "cd \"$0\" && exec \"$1\"", folder.path(), SHARDPROOF_C99_PROGRAM},
       {{"SHARDPROOF_TRACE", ""}, {"SHARDPROOF_FAULT", "0:0:clipped:kill"}}},
      std::chrono::seconds(30));
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_TRUE(done.output.empty()) << done.output;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace shardproof
