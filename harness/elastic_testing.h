// elastic_testing: for tests of elastic runs: one run on thread ranks or MPI processes, and what it
// came to: the bits of every step and of the state at the end.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/load.h"
#include "harness/fault_board.h"
#include "harness/fault_run.h"
#include "harness/world.h"
#include "train/case_testing.h"

namespace shardproof {

struct ElasticEnd {
  std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> steps;  // loss, gradient norm
  std::string state;  // digest of the state behind the last step; empty: it did not get there
  std::string said;   // on stderr
  std::string error;
  ErrorKind kind = ErrorKind::io;
  std::vector<std::string> fired;

  bool says(const std::string& words) const { return said.find(words) != std::string::npos; }
};

inline Config elastic_case(const std::string& layout, const std::vector<std::string>& keys = {}) {
  Config config = small_case(layout, 8);
  config.checkpoint.every = 2;
  config.checkpoint.directory = "memory";
  config.run.deadline = 20;
  config.run.elastic = true;
  for (const std::string& key : keys) set_key(config, key);
  check(config);
  return config;
}

inline void keep_bits(RunRequest& request, ElasticEnd& end) {
  request.on_step = [&end](const StepResult& step, const StepMetrics&) {
    end.steps[step.step] = {std::bit_cast<std::uint64_t>(step.loss),
                            std::bit_cast<std::uint64_t>(step.grad_norm)};
  };
}

// On thread ranks.
inline ElasticEnd run_elastic(const Config& config, const std::string& faults = "") {
  ElasticEnd end;
  RunRequest request;
  request.config = config;
  request.storage = memory_storage();
  if (!faults.empty()) {
    request.faults = std::make_shared<FaultBoard>(parse_faults(faults, "test"));
  }
  keep_bits(request, end);
  request.on_state = [&end](const Digest& state) { end.state = state.hex(); };
  testing::internal::CaptureStderr();
  try {
    run_on_threads(request);
  } catch (const Error& error) {
    end.error = error.what();
    end.kind = error.kind();
  }
  end.said = testing::internal::GetCapturedStderr();
  if (request.faults) {
    for (const Fault& fault : request.faults->fired()) end.fired.push_back(fault.text());
  }
  return end;
}

// The same Case, which nobody dies in and which is not elastic.
inline const ElasticEnd& undisturbed(Config config) {
  static std::map<std::string, ElasticEnd> known;
  config.run.elastic = false;
  config.run.spares = 0;
  config.run.fault.clear();
  config.run.backend = "threads";
  config.checkpoint.directory = "memory";
  auto& found = known[run_line(config)];
  if (found.state.empty()) found = run_elastic(config);
  EXPECT_EQ(found.error, "");
  return found;
}

inline void expect_same_end(const ElasticEnd& end, const Config& config, const std::string& about) {
  const ElasticEnd& whole = undisturbed(config);
  ASSERT_EQ(static_cast<int>(whole.steps.size()), config.training.steps);
  EXPECT_EQ(end.error, "") << about;
  EXPECT_EQ(end.state, whole.state) << about << "\n" << end.said;
  EXPECT_TRUE(end.steps == whole.steps) << about << "\n" << end.said;
}

// Every place at which a rank may die in such a run, from its start to its end, of all ranks.
inline std::vector<std::string> places_of(const Config& config) {
  FaultRunner runner(20);
  std::vector<std::string> places;
  for (const PassedPoint& passed : runner.discover(config)) {
    if (passed.point.kind == PointKind::start) continue;
    const std::string text = passed.point.text();
    places.push_back(text);
    if (passed.point.kind == PointKind::step) continue;
    const std::string bare = text.substr(0, text.rfind(':') + 1);
    if (passed.point.kind == PointKind::call) places.push_back(bare + "inside");
    if (passed.what.starts_with("write")) places.push_back(bare + "torn");
    places.push_back(bare + "after");
  }
  return places;
}

}  // namespace shardproof
