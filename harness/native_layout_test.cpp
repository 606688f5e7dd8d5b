// ctest: invariant timeout=120 processors=2
// Native reduction on thread ranks, judged by the error model, with everything in the Case that
// changes the maths; and the mistakes that loss and parameters hide, which the model must see.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "base/temp_folder.h"
#include "harness/lone_leg.h"
#include "harness/world.h"
#include "invariants/compare_errors.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

constexpr int steps = 3;

Config native_case(const std::string& layout) {
  Config config = small_case(layout, steps);
  config.model.layers = 2;
  config.model.dropout = 0.1;
  config.model.label_smoothing = 0.1;
  config.model.tied = true;
  config.data.ignored = 0.3;
  config.numerics.reduction = "native";
  return config;
}

Trace run_traced(const Config& config, const std::string& directory) {
  RunRequest request;
  request.config = config;
  request.trace.directory = directory;
  request.trace.capture_all = true;
  request.trace.digest = true;
  run_on_threads(request);
  return read_trace(directory);
}

Leg lone(const std::string& name, const Config& config) {
  Leg leg{name, config, {0, 2}, std::nullopt};
  leg.weights_of = "main";
  leg.float64 = name == "float64";
  return leg;
}

// Of a run's trace against lone legs from its own weights.
Verdict judge(const Config& config, const Trace& trace, const TempFolder& folder) {
  std::vector<LegResult> legs;
  for (const std::string name : {"float64", "float32", "float32-cut"}) {
    const Leg leg = lone(name, name == "float32-cut" ? config : whole_config(config));
    legs.push_back(run_lone_leg(leg, trace, folder.file(name)));
    EXPECT_FALSE(legs.back().error) << legs.back().error->what();
  }
  return check_native_layout(legs[0].trace, {&legs[1].trace, &legs[2].trace}, trace);
}

std::string text(const Verdict& verdict) {
  return verdict.reason + (verdict.difference ? " " + verdict.difference->print() : "");
}

class NativeLayouts : public testing::TestWithParam<const char*> {};

TEST_P(NativeLayouts, AreWithinRoundingOfFloat64AndRepeatTheirBits) {
  const TempFolder folder;
  const Config config = native_case(GetParam());
  const Trace trace = run_traced(config, folder.file("main"));
  const Verdict verdict = judge(config, trace, folder);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << text(verdict);
  ASSERT_FALSE(verdict.notes.empty());
  RecordProperty("worst", verdict.notes.front());
  const Verdict repeat = check_repeat(trace, run_traced(config, folder.file("again")));
  EXPECT_EQ(repeat.outcome, Outcome::pass) << text(repeat);
  for (const Verdict& each : {check_replicas(trace), check_cover(trace), check_optimizer(trace)}) {
    EXPECT_EQ(each.outcome, Outcome::pass) << each.check << ": " << text(each);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, NativeLayouts,
                         testing::Values("dp1", "dp2", "dp4", "dp2.zero1", "dp2.zero2", "dp2.fsdp",
                                         "tp2", "tp2.sp", "dp2.tp2", "cp2", "cp2-zigzag",
                                         "cp2-ulysses", "pp2", "dp2.pp2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

// A doctored step is all that a run leaves: the loss is clean, and clipping and Adam would take
// any common factor out of the parameters.
class NativeMistakes : public testing::Test {
 protected:
  NativeMistakes() : config_(native_case("dp2")), weights_(initial_weights(config_)) {}

  Trace write(const LoneStep& step, bool float64) {
    const std::string directory = folder_.file("trace" + std::to_string(next_++));
    std::filesystem::create_directories(directory);
    write_lone_trace(config_, {{step, weights_}}, float64, directory);
    return read_trace(directory);
  }
  LoneStep step(bool float64, const std::set<int>& leave_out = {}) const {
    return lone_step(config_, 0, weights_, float64, leave_out);
  }
  Verdict judge(const LoneStep& found) {
    const Trace truth = write(step(true), true), reference = write(step(false), false);
    const Trace judged = write(found, false);
    ratio_ =
        compare_errors(truth, std::array<const Trace*, 1>{&reference}, judged, 0, "grad").ratio;
    return check_native_layout(truth, {&reference}, judged);
  }
  LoneStep scaled(double factor) const {
    LoneStep out = step(false);
    for (auto& [name, values] : out.gradients) {
      for (double& each : values) each = static_cast<float>(each * factor);
    }
    return out;
  }
  void expect_seen(const LoneStep& found) {
    const Verdict verdict = judge(found);
    EXPECT_EQ(verdict.outcome, Outcome::fail) << text(verdict);
    ASSERT_TRUE(verdict.difference);
    EXPECT_EQ(verdict.difference->phase, "grad");
    EXPECT_GE(verdict.difference->element, 0);
    EXPECT_GT(ratio_, 1e4) << "a mistake is not near the bound";
    RecordProperty("ratio", std::to_string(ratio_));
  }

  TempFolder folder_;
  const Config config_;
  const Weights weights_;
  double ratio_ = 0;
  int next_ = 0;
};

TEST_F(NativeMistakes, NoneIsSeenInACleanStep) {
  const Verdict verdict = judge(step(false));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << text(verdict);
}

TEST_F(NativeMistakes, ALostOneOverKIsSeen) {
  expect_seen(scaled(config_.micro_batches() / 2));
  expect_seen(scaled(2.0 / config_.micro_batches()));
}

TEST_F(NativeMistakes, ALostAndADoubledFactorRAreSeen) {
  expect_seen(scaled(2));
  expect_seen(scaled(0.5));
}

TEST_F(NativeMistakes, ALostMicroBatchIsSeen) {
  expect_seen(step(false, {7}));
}

// Rank 0 keeps its own sum of one tensor; the rest is reduced.
TEST_F(NativeMistakes, ABucketThatIsNotReducedIsSeen) {
  const LoneStep of_rank_0 = step(false, {6, 7, 8, 9, 10, 11});
  LoneStep found = step(false);
  found.gradients["ln_f.bias"] = of_rank_0.gradients.at("ln_f.bias");
  expect_seen(found);
}

TEST_F(NativeMistakes, TheSameMistakeInAFurtherReferenceHidesNone) {
  const Trace truth = write(step(true), true), reference = write(step(false), false);
  const Trace wrong = write(scaled(2), false);
  const Verdict verdict = check_native_layout(truth, {&reference, &wrong}, wrong);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
}

// The float32 side of the model is a layout: one rank of the trainer.
TEST(LoneLeg, InFloat32HasTheBitsOfOneRank) {
  const TempFolder folder;
  const Config config = native_case("dp1");
  const Trace trace = run_traced(config, folder.file("main"));
  const LegResult leg = run_lone_leg(lone("float32", config), trace, folder.file("float32"));
  ASSERT_FALSE(leg.error) << leg.error->what();
  for (const std::int64_t step : {0, 2}) {
    const TensorComparison same = compare_tensors(leg.trace, trace, step, "grad");
    EXPECT_GT(same.compared, 0);
    EXPECT_TRUE(same.incomparable.empty()) << same.incomparable;
    EXPECT_FALSE(same.first) << same.first->print();
  }
}

TEST(LoneLeg, SaysWhichWeightsItLacks) {
  const TempFolder folder;
  Trace none;
  none.directory = "elsewhere";
  const LegResult leg =
      run_lone_leg(lone("float64", native_case("dp1")), none, folder.file("float64"));
  ASSERT_TRUE(leg.error);
  EXPECT_NE(std::string(leg.error->what()).find("parameters of step 1"), std::string::npos)
      << leg.error->what();
}

}  // namespace
}  // namespace shardproof
