// ctest: invariant timeout=120
// Runs on thread ranks, judged by their traces.
#include "harness/world.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"
#include "comm/flight_dump.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

#define EXPECT_PASS(expression)                                                             \
  do {                                                                                      \
    const Verdict verdict = (expression);                                                   \
    EXPECT_EQ(verdict.outcome, Outcome::pass)                                               \
        << verdict.reason << (verdict.difference ? " " + verdict.difference->print() : ""); \
  } while (false)

RunRequest traced(const Config& config, const std::string& directory) {
  RunRequest request;
  request.config = config;
  request.trace.directory = directory;
  request.trace.digest = true;
  return request;
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error";
  return Error(ErrorKind::environment, "", "");
}

TEST(World, ATracedRunPassesEveryCheckOfATrace) {
  const TempFolder folder;
  RunRequest request = traced(small_case("dp3.zero1", 4), folder.file("trace"));
  request.trace.capture_all = true;
  run_on_threads(request);
  const Trace trace = read_trace(folder.file("trace"));
  EXPECT_PASS(check_live(trace, 4));
  EXPECT_PASS(check_cover(trace));
  EXPECT_PASS(check_replicas(trace));
  EXPECT_PASS(check_data(trace));
  EXPECT_PASS(check_optimizer(trace));
  EXPECT_PASS(check_optimizer_bytes(trace));
}

TEST(World, AModelThatCannotFitIsRefusedBeforeItIsLaidOut) {
  RunRequest request;
  request.config.model.width = 65536;
  request.config.model.layers = 1024;
  const Error error = error_of([&] { run_on_threads(request); });
  EXPECT_EQ(error.kind(), ErrorKind::environment);
  EXPECT_NE(error.detail().find("need more than"), std::string::npos) << error.what();
}

TEST(World, TheRunEventSaysWhatRan) {
  const TempFolder folder;
  const Config config = small_case("dp2.zero1", 1);
  run_on_threads(traced(config, folder.file("trace")));
  const Trace trace = read_trace(folder.file("trace"));
  ASSERT_EQ(trace.ranks.size(), 2u);
  const Json& run = trace.ranks[1].run;
  EXPECT_EQ(run.at("coords").at("dp"), 1);
  EXPECT_EQ(run.at("coords").at("tp"), 0);
  EXPECT_EQ(run.at("layout"), "dp2.zero1");
  EXPECT_EQ(run.at("config_digest"), config_digest(config));
  EXPECT_EQ(run.at("code"), program().code);
  EXPECT_EQ(run.at("kernels"), program().kernels);
  EXPECT_EQ(run.at("seeds").at("training"), config.training.seed);
  EXPECT_EQ(run.at("data_digest").get<std::string>().size(), 64u);
  std::set<std::string> ops;
  for (const Json& line : trace.ranks[0].others) {
    if (line.at("kind") == "comm" && line.at("step") == 0 && line.at("part") == "step") {
      ops.insert(line.at("group").get<std::string>() + " " + line.at("op").get<std::string>());
    }
  }
  EXPECT_TRUE(ops.contains("world/dp.0 all_to_all"));
  EXPECT_TRUE(ops.contains("world/state.0 all_gather"));
}

TEST(World, ARunResumedFromAFolderWalksTheUncutRun) {
  const TempFolder folder;
  Config config = small_case("dp2.zero1", 6);
  config.checkpoint.directory = folder.file("checkpoints");
  config.checkpoint.every = 3;
  run_on_threads(traced(config, folder.file("uncut")));
  RunRequest request = traced(config, folder.file("resumed"));
  request.resume = "step-00000003";
  run_on_threads(request);
  const Trace uncut = read_trace(folder.file("uncut"));
  const Trace resumed = read_trace(folder.file("resumed"));
  EXPECT_PASS(check_resume(uncut, resumed, 3));
  EXPECT_EQ(resumed.ranks[0].steps.front().step, 3);
  for (const char* what : {"param", "moment"}) {  // what was loaded is what was saved
    const TensorComparison loaded = compare_tensors(uncut, resumed, 2, what);
    EXPECT_GT(loaded.compared, 0);
    EXPECT_FALSE(loaded.first.has_value()) << loaded.first->print();
  }
}

TEST(World, StopEndsAllRanksAfterTheSameStepAndSaves) {
  const TempFolder folder;
  Config config = small_case("dp3.zero1", 50);
  config.checkpoint.directory = folder.file("checkpoints");
  std::atomic<bool> stop{false};
  RunRequest request = traced(config, folder.file("trace"));
  request.stop = &stop;
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    if (result.step == 4) stop = true;
  };
  EXPECT_FALSE(run(request));
  const Trace trace = read_trace(folder.file("trace"));
  ASSERT_TRUE(trace.ranks[0].ended.has_value());
  EXPECT_GE(*trace.ranks[0].ended, 6);  // asked after step 4: seen in step 5 or, at most, step 6
  EXPECT_LE(*trace.ranks[0].ended, 7);
  for (const RankTrace& rank : trace.ranks) EXPECT_EQ(rank.ended, trace.ranks[0].ended);
  ASSERT_EQ(trace.ranks[0].checkpoints.size(), 2u);  // begun, done
  EXPECT_EQ(trace.ranks[0].checkpoints[1].step, *trace.ranks[0].ended);
}

TEST(World, MetricsHoldALineAStepWithTimesRatesAndMemory) {
  const TempFolder folder;
  RunRequest request;
  request.config = small_case("dp2.zero1", 3);
  request.metrics_directory = folder.file("metrics");
  run_on_threads(request);
  for (const char* file : {"metrics.rank_00000.jsonl", "metrics.rank_00001.jsonl"}) {
    std::ifstream lines(folder.file("metrics") + "/" + file);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const Json json = parse_json(line, file);
      EXPECT_EQ(json.at("step"), count);
      EXPECT_GT(json.at("tokens_per_second").get<double>(), 0);
      EXPECT_GT(json.at("utilisation").get<double>(), 0);
      EXPECT_LT(json.at("utilisation").get<double>(), 1);
      EXPECT_GT(json.at("bytes_sent").get<std::int64_t>(), 0);
      EXPECT_GE(json.at("memory_max"), json.at("memory_mean"));
      EXPECT_GT(json.at("memory_mean").get<std::int64_t>(), 0);
      double parts = 0;
      for (const auto& part : json.at("parts").items()) parts += part.value().get<double>();
      EXPECT_LE(parts, json.at("seconds").get<double>());
      EXPECT_GT(json.at("parts").at("forward").get<double>(), 0);
    }
    EXPECT_EQ(count, 3);
  }
}

TEST(World, AFailureOnOneRankEndsAllOfThemAndIsTheErrorThatIsThrown) {
  class Fail : public Hooks {
   public:
    void phase(std::int64_t step, Phase phase, Plan&) override {
      if (step == 1 && phase == Phase::backward)
        throw Error(ErrorKind::io, "the disk", "is full", 2);
    }
  };
  const TempFolder folder;
  RunRequest request = traced(small_case("dp3.zero1", 5), folder.file("trace"));
  request.hooks = [](int rank) -> std::unique_ptr<Hooks> {
    return rank == 2 ? std::make_unique<Fail>() : std::make_unique<Hooks>();
  };
  const Error error = error_of([&] { run_on_threads(request); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_EQ(error.place(), "the disk");
  for (int rank = 0; rank < 3; ++rank) {  // the last operations of every rank are kept
    const std::string path = folder.file("trace") + "/" + flight_dump_name(rank);
    EXPECT_EQ(read_flight_dumps({path}).at(0).records.rank, rank);
  }
}

TEST(World, ADeadlineThatIsShorterThanAStepIsNamed) {
  const TempFolder folder;
  RunRequest request = traced(small_case("dp2", 2), folder.file("trace"));
  request.config.run.deadline = 0.05;
  request.config.run.fault = "1:0:forward:delay=0.5";
  const Error error = error_of([&] { run_on_threads(request); });
  EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
  EXPECT_NE(error.detail().find("run.deadline is 0.05 s, which a slow step may take"),
            std::string::npos)
      << error.what();
}

TEST(World, RefusesWhatCannotRun) {
  Config config = small_case("dp2", 1);
  const auto run_with = [&](const char* assignment) {
    RunRequest request;
    request.config = config;
    set_key(request.config, assignment);
    return error_of([&] { run_on_threads(request); });
  };
  EXPECT_EQ(run_with("run.layout=dp2.ep2").kind(), ErrorKind::bad_input);
  EXPECT_EQ(run_with("data.path=/no/such/text").kind(), ErrorKind::bad_input);
  EXPECT_EQ(run_with("numerics.portable=true").kind(), ErrorKind::refused);
  const Error fault = run_with("run.fault=1:0:forward:kill");
  EXPECT_EQ(fault.place(), "run.fault");
  EXPECT_NE(fault.detail().find("run.backend=mpi"), std::string::npos);
  const Error untraced = run_with("run.fault=1:0:forward:delay=0.1");
  EXPECT_NE(untraced.detail().find("trace"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
