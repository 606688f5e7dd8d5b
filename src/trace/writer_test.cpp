// ctest: unit
#include "trace/writer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "base/clock.h"
#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TraceOptions into(const TempFolder& folder) {
  TraceOptions options;
  options.directory = folder.path();
  return options;
}

TEST(TraceWriter, WritesTheDocumentedLines) {
  TempFolder folder;
  TraceWriter writer(into(folder), 3, 4);
  EXPECT_TRUE(writer.enabled());
  writer.run({{"code", "abc"}});
  writer.at(0, Phase::forward);
  writer.checkpoint(1, "ckpt/1", false);
  writer.checkpoint(1, "ckpt/1", true);
  writer.event({{"kind", "comm"}, {"n", 3}});
  writer.end(1);
  const auto lines = lines_of(folder.read("rank_00003.jsonl"));
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], R"({"kind":"run","schema":1,"rank":3,"world":4,"pid":)" +
                          std::to_string(getpid()) + R"(,"code":"abc"})");
  EXPECT_EQ(lines[1], R"({"kind":"at","step":0,"phase":"forward"})");
  EXPECT_EQ(lines[2], R"({"kind":"checkpoint","step":1,"path":"ckpt/1","state":"begun"})");
  EXPECT_EQ(lines[3], R"({"kind":"checkpoint","step":1,"path":"ckpt/1","state":"done"})");
  EXPECT_EQ(lines[4], R"({"kind":"comm","n":3})");
  EXPECT_EQ(lines[5], R"({"kind":"end","step":1})");
}

TEST(TraceWriter, WithoutADirectoryItDoesNothing) {
  TraceOptions options;
  options.digest = true;
  options.capture_all = true;
  options.fault = TraceFault{0, 0, Phase::forward, TraceFault::Kind::kill, 0};
  TraceWriter writer(options, 0, 1);
  EXPECT_FALSE(writer.enabled());
  EXPECT_FALSE(writer.wants_tensors(0));
  TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  writer.run({});
  writer.at(0, Phase::forward);
  writer.step({});
  writer.checkpoint(0, "x", true);
  writer.event({{"kind", "x"}});
  writer.tensors(0, "param", {});
  writer.end(0);
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TraceWriter, BytesThatAreNotTextAreReplaced) {
  TempFolder folder;
  TraceWriter writer(into(folder), 0, 1);
  writer.checkpoint(1, "bad\xff\nname", true);
  const Trace trace = read_trace(folder.path());
  EXPECT_EQ(trace.ranks[0].checkpoints[0].path, "bad\xef\xbf\xbd\nname");
}

TEST(TraceWriter, ContinuesAFileLeftByAKilledRun) {
  TempFolder folder;
  TraceWriter(into(folder), 0, 1).run({});
  {
    std::ofstream torn(folder.file("rank_00000.jsonl"), std::ios::app);
    torn << "{\"kind\":\"at\",\"st";
  }
  EXPECT_TRUE(read_trace(folder.path()).ranks[0].torn);
  TraceWriter(into(folder), 0, 1).run({});
  const Trace trace = read_trace(folder.path());
  EXPECT_EQ(trace.ranks[0].runs, 2);
  EXPECT_FALSE(trace.ranks[0].torn);
}

struct Tensors {
  std::vector<float> values = std::vector<float>(2048, 1.5f);
  std::vector<TensorView> views() const {
    std::vector<TensorView> views(2);
    views[0].place = {"blocks.0.w", {2048}, 0, {{0}, {2048}}, true, {0, 2048}};
    views[0].data = values.data();
    views[1].place = {"head.w", {2, 2}, 0, {{0, 0}, {2, 2}}, false, {}};
    views[1].data = values.data();
    return views;
  }
};

TEST(TraceWriter, DigestsEveryStepAndCapturesTheChosen) {
  TempFolder folder;
  TraceOptions options = into(folder);
  options.digest = true;
  options.capture = {-1, 2};
  TraceWriter writer(options, 0, 1);
  const Tensors tensors;
  writer.run({});
  for (const std::int64_t step : {-1, 0, 1, 2}) {
    EXPECT_TRUE(writer.wants_tensors(step));
    writer.tensors(step, "param", tensors.views());
  }
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.ranks[0].tensors.size(), 8u);
  EXPECT_EQ(trace.ranks[0].tensors[0].step, -1);
  EXPECT_EQ(trace.ranks[0].tensors[0].blocks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].tensors[1].place.name, "head.w");
  EXPECT_EQ(trace.ranks[0].tensors[1].norm, 3.0);
  ASSERT_EQ(trace.files.size(), 2u);
  EXPECT_EQ(trace.files[0].step, -1);
  EXPECT_EQ(trace.files[1].step, 2);
  const TensorFile file = TensorFile::open(trace.files[1].path);
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].bytes.size(), 8192u);
}

TEST(TraceWriter, CaptureAloneWritesNoEventsAndOtherStepsNothing) {
  TempFolder folder;
  TraceOptions options = into(folder);
  options.capture = {1};
  TraceWriter writer(options, 0, 1);
  EXPECT_FALSE(writer.wants_tensors(0));
  EXPECT_TRUE(writer.wants_tensors(1));
  const Tensors tensors;
  writer.tensors(0, "grad", tensors.views());
  writer.tensors(1, "grad", tensors.views());
  const Trace trace = read_trace(folder.path());
  EXPECT_TRUE(trace.ranks[0].tensors.empty());
  ASSERT_EQ(trace.files.size(), 1u);
  EXPECT_EQ(trace.files[0].what, "grad");
}

TEST(TraceWriter, MatchSelectsByNameInEventsAndFiles) {
  TempFolder folder;
  TraceOptions options = into(folder);
  options.digest = true;
  options.capture_all = true;
  options.match = "^head";
  TraceWriter writer(options, 0, 1);
  writer.tensors(5, "param", Tensors().views());
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.ranks[0].tensors.size(), 1u);
  EXPECT_EQ(trace.ranks[0].tensors[0].place.name, "head.w");
  EXPECT_EQ(TensorFile::open(trace.files[0].path).entries().size(), 1u);
}

// Runs `body` in a child process and returns its wait status once it ends or stops.
template <typename Body>
std::pair<pid_t, int> in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
  return {child, status};
}

void walk_steps(const TempFolder& folder, const std::string& fault, int rank) {
  TraceOptions options = into(folder);
  options.fault = parse_trace_fault(fault);
  TraceWriter writer(options, rank, 2);
  for (int step = 0; step < 3; ++step) {
    writer.at(step, Phase::forward);
    writer.at(step, Phase::backward);
  }
  writer.end(3);
}

TEST(TraceFaultFires, KillRightAfterItsLine) {
  TempFolder folder;
  const auto [child, status] = in_child([&] { walk_steps(folder, "1:1:forward:kill", 1); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  const Trace trace = read_trace(folder.path());
  EXPECT_EQ(trace.ranks[0].last_at->step, 1);
  EXPECT_EQ(trace.ranks[0].last_at->phase, "forward");
  EXPECT_FALSE(trace.ranks[0].ended.has_value());
}

TEST(TraceFaultFires, StopUntilContinued) {
  TempFolder folder;
  const auto [child, status] = in_child([&] { walk_steps(folder, "0:2:backward:stop", 0); });
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(WSTOPSIG(status), SIGSTOP);
  EXPECT_FALSE(read_trace(folder.path()).ranks[0].ended.has_value());
  ASSERT_EQ(kill(child, SIGCONT), 0);
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_TRUE(WIFEXITED(end));
  EXPECT_EQ(read_trace(folder.path()).ranks[0].ended, 3);
}

TEST(TraceFaultFires, DelayOnce) {
  TempFolder folder;
  const Duration before = Clock::real().now();
  walk_steps(folder, "0:1:forward:delay=0.05", 0);
  const Duration took = Clock::real().now() - before;
  EXPECT_GE(took, std::chrono::milliseconds(50));
  EXPECT_EQ(read_trace(folder.path()).ranks[0].ended, 3);
}

TEST(TraceFaultFires, NotOnAnotherRankStepOrPhase) {
  for (const char* fault : {"1:1:forward:kill", "0:3:forward:kill", "0:1:save:kill"}) {
    TempFolder folder;
    const auto [child, status] = in_child([&] { walk_steps(folder, fault, 0); });
    EXPECT_TRUE(WIFEXITED(status)) << fault;
    EXPECT_EQ(read_trace(folder.path()).ranks[0].ended, 3);
  }
}

TEST(TraceWriter, AFaultOfARankThatDoesNotExistIsRefused) {
  TempFolder folder;
  TraceOptions options = into(folder);
  options.fault = parse_trace_fault("2:0:forward:kill");
  const Error error = error_of([&] { TraceWriter writer(options, 0, 2); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  EXPECT_NE(error.detail().find("rank 2"), std::string::npos);
}

TEST(TraceWriter, AFolderThatCannotBeMadeIsAnError) {
  TempFolder folder;
  folder.write("file", "");
  TraceOptions options;
  options.directory = folder.file("file");
  EXPECT_EQ(error_of([&] { TraceWriter writer(options, 0, 1); }).kind(), ErrorKind::io);
}

TEST(TraceWriterDeathTest, MisuseIsABug) {
  TempFolder folder;
  EXPECT_DEATH(TraceWriter(into(folder), 4, 4), "rank 4 of 4");
  TraceWriter writer(into(folder), 0, 1);
  EXPECT_DEATH(writer.run({{"rank", 9}}), "fact rank");
  EXPECT_DEATH(writer.event({{"step", 1}}), "event without kind");
}

TEST(HarnessEvents, AreAppended) {
  TempFolder folder;
  const std::string directory = folder.file("run");
  append_harness_event(directory, {{"kind", "start"}});
  append_harness_event(directory, {{"kind", "exit"}, {"code", 0}});
  EXPECT_EQ(folder.read("run/harness.jsonl"),
            "{\"kind\":\"start\"}\n{\"kind\":\"exit\",\"code\":0}\n");
  EXPECT_EQ(error_of([] { append_harness_event("/dev/null", Json::object()); }).kind(),
            ErrorKind::io);
}

}  // namespace
}  // namespace shardproof
