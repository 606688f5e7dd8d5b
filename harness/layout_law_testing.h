// layout_law_testing: the layout law for data parallelism: one Case with 12 micro-batches, 100
// steps, each layout against one rank: the same bits in loss, gradient norm, gradients, parameters
// and moments at every step, as the traces say. For tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {

inline constexpr int steps = 100;

// By the command, so that all legs run the same program.
inline Trace run_traced(Config config, const std::string& backend, const TempFolder& folder) {
  config.run.backend = backend;
  std::ofstream(folder.file("case.toml")) << to_toml(config);
  const ChildResult child = run_child(
      {SHARDPROOF_COMMAND, "train", folder.file("case.toml"), "--trace", folder.file("trace")},
      std::chrono::seconds(100));
  EXPECT_EQ(child.exit_code, 0) << child.output;
  return read_trace(folder.file("trace"));
}

class LayoutLaw : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    reference_ = new Trace(run_traced(small_case("dp1", steps), "threads", *folder_));
  }
  static void TearDownTestSuite() {
    delete reference_;
    delete folder_;
  }

  void expect_equal(const std::string& layout, const std::string& backend) {
    SCOPED_TRACE(layout + " on " + backend);
    const TempFolder folder;
    const Trace trace = run_traced(small_case(layout, steps), backend, folder);
    const Verdict live = check_live(trace, steps);
    EXPECT_EQ(live.outcome, Outcome::pass) << live.reason;
    const Verdict replicas = check_replicas(trace);
    EXPECT_EQ(replicas.outcome, Outcome::pass) << replicas.reason;
    const Verdict verdict = check_layout(*reference_, trace);
    EXPECT_EQ(verdict.outcome, Outcome::pass)
        << verdict.reason << (verdict.difference ? " " + verdict.difference->print() : "");
    EXPECT_EQ(trajectory_digest(trace), trajectory_digest(*reference_));
  }

  static inline TempFolder* folder_ = nullptr;
  static inline Trace* reference_ = nullptr;
};

}  // namespace shardproof
