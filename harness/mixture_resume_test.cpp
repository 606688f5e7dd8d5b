// ctest: invariant timeout=120 processors=2
// A mixture through the whole stack: any layout takes the samples of one rank, a resumed run those
// of the uncut one, and a run that is told to goes on with other weights, and can be resumed
// itself.
#include <gtest/gtest.h>

#include <fstream>

#include "base/expect_error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/layout_list.h"
#include "harness/world.h"
#include "invariants/trace_checks.h"
#include "trace/memory_trace.h"

namespace shardproof {
namespace {

Config mixture() {
  Config config = case_config(CaseKind::shallow);
  const DataSection plain;
  config.data.samples = plain.samples;
  config.data.last = plain.last;
  config.data.sources = {{"a", 0.7, "synthetic", "", 40}, {"b", 0.3, "synthetic", "", 7}};
  config.training.steps = 6;
  return config;
}

class MixtureResume : public testing::Test {
 protected:
  Trace run(const Config& config, std::optional<std::string> resume = std::nullopt) {
    RunRequest request;
    request.config = config;
    request.trace.digest = true;
    request.trace.memory = std::make_shared<MemoryTrace>();
    request.storage = config.checkpoint.directory.empty() ? nullptr : storage_;
    request.resume = std::move(resume);
    run_on_threads(request);
    return request.trace.memory->take();
  }

  static Config saving(Config config, int every) {
    config.checkpoint.every = every;
    config.checkpoint.last = false;
    config.checkpoint.directory = "in memory";
    return config;
  }

  static void expect_pass(const Verdict& verdict) {
    EXPECT_EQ(verdict.outcome, Outcome::pass)
        << verdict.check << ": " << verdict.reason
        << (verdict.difference ? " " + verdict.difference->print() : "");
  }

  std::shared_ptr<Storage> storage_ = memory_storage();
};

TEST_F(MixtureResume, EveryLayoutTakesTheSamplesOfOneRankAndResumes) {
  Config config = mixture();
  const Trace alone = run(config);
  expect_pass(check_data(alone));
  for (const char* layout : {"dp2.zero1", "dp3.zero1", "dp4.zero3", "dp2.tp2"}) {
    SCOPED_TRACE(layout);
    storage_ = memory_storage();
    config.run.layout = layout;
    const Trace uncut = run(saving(config, 2));
    expect_pass(check_layout(alone, uncut));
    expect_pass(check_data(uncut));
    const Trace resumed = run(saving(config, 0), "step-00000002");
    expect_pass(check_resume(uncut, resumed, 2));
    expect_pass(check_data(resumed, &uncut));
  }
}

TEST_F(MixtureResume, AnotherDataDegreeGoesOnWithTheSameSamplesAndBits) {
  Config config = mixture();
  config.run.layout = "dp2.zero1";
  const Trace uncut = run(saving(config, 2));
  for (const char* layout : {"dp4.zero3", "dp3", "dp1"}) {
    SCOPED_TRACE(layout);
    config.run.layout = layout;
    const Trace resumed = run(saving(config, 0), "step-00000002");
    expect_pass(check_resume(uncut, resumed, 2));
    expect_pass(check_data(resumed, &uncut));
  }
}

TEST_F(MixtureResume, TheMetricsCountEachSourceOverAllRanks) {
  const TempFolder folder;
  RunRequest request;
  request.config = mixture();
  request.config.run.layout = "dp3.zero1";
  request.metrics_file = folder.file("metrics.jsonl");
  run_on_threads(request);
  std::ifstream file(request.metrics_file);
  std::int64_t a = 0, b = 0, lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const Json json = parse_json(line, "metrics");
    const Json& sources = json.at("sources");
    a += sources.at("a").at("samples").get<std::int64_t>();
    b += sources.at("b").at("samples").get<std::int64_t>();
    EXPECT_EQ(sources.at("a").at("tokens").get<std::int64_t>() +
                  sources.at("b").at("tokens").get<std::int64_t>(),
              json.at("tokens").get<std::int64_t>());
  }
  const double all = static_cast<double>(a + b);
  EXPECT_EQ(lines, 6);
  EXPECT_EQ(a + b, 6 * request.config.training.global_batch);
  EXPECT_NEAR(static_cast<double>(a), 0.7 * all, 1.0);  // ceil(log2(2))
}

TEST_F(MixtureResume, OtherWeightsAreRefusedUnlessTold) {
  Config config = mixture();
  config.run.layout = "dp2.zero1";
  config.training.steps = 3;  // saves before step 2 alone
  const Trace before = run(saving(config, 2));
  config.training.steps = 6;
  Config changed = saving(config, 0);
  changed.data.sources[0].weight = 0.2;
  changed.data.sources.push_back({"c", 0.5, "synthetic", "", 9});
  expect_error(ErrorKind::refused,
               {"data.sources: expected [{\"name\":\"a\",\"weight\":0.2", "found [{\"name\":\"a\"",
                "data.remix=true", "data digest"},
               [&] { run(changed, "step-00000002"); });
  changed.data.remix = true;
  const Trace remixed = run(saving(changed, 4), "step-00000002");
  expect_pass(check_data(remixed, &before));

  // Told once: what it saved is a run of the new mixture, with the switch in its cursor.
  changed.data.remix = false;
  const Trace again = run(saving(changed, 0), "step-00000004");
  expect_pass(check_resume(remixed, again, 4));
  expect_error(ErrorKind::refused, {"data.sources"},
               [&] { run(saving(config, 0), "step-00000004"); });
  changed.data.sources.pop_back();
  changed.data.remix = true;
  expect_error(ErrorKind::refused, {"data cursor", "expected c to stay", "found none"},
               [&] { run(changed, "step-00000004"); });
}

TEST_F(MixtureResume, ARemixKeepsTheKindOfTheRun) {
  Config plain = mixture();
  plain.data.sources.clear();
  plain.run.layout = "dp2.zero1";
  run(saving(plain, 2));
  Config mixed = saving(mixture(), 0);
  mixed.run.layout = "dp2.zero1";
  mixed.data.remix = true;
  expect_error(ErrorKind::refused, {"data.sources", "found []"},
               [&] { run(mixed, "step-00000002"); });
  plain.data.samples /= 2;
  plain.data.remix = true;
  expect_error(ErrorKind::refused, {"data.samples", "data digest"},
               [&] { run(saving(plain, 0), "step-00000002"); });
}

}  // namespace
}  // namespace shardproof
