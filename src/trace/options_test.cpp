// ctest: unit
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

using Environment = std::map<std::string, std::string>;

TEST(TraceFault, EveryKindAndPhase) {
  const TraceFault kill = parse_trace_fault("2:13:backward:kill");
  EXPECT_EQ(kill.rank, 2);
  EXPECT_EQ(kill.step, 13);
  EXPECT_EQ(kill.phase, Phase::backward);
  EXPECT_EQ(kill.kind, TraceFault::Kind::kill);
  EXPECT_EQ(parse_trace_fault("0:0:save:stop").kind, TraceFault::Kind::stop);
  const TraceFault delay = parse_trace_fault("1:2:reduced:delay=0.25");
  EXPECT_EQ(delay.kind, TraceFault::Kind::delay);
  EXPECT_EQ(delay.seconds, 0.25);
}

TEST(TraceFault, AnythingElseIsRefusedWithAnExample) {
  for (const char* bad :
       {"", "2:13:backward", "2:13:backward:kill:", "-1:13:backward:kill", "x:13:backward:kill",
        "2:-1:backward:kill", "2:1.5:backward:kill", "2:13:sideways:kill", "2:13:backward:burn",
        "2:13:backward:delay", "2:13:backward:delay=", "2:13:backward:delay=-1",
        "2:13:backward:delay=nan", "2:13:backward:delay=inf", "2:13:backward:delay=1s",
        "2 :13:backward:kill", "99999999999:1:save:kill"}) {
    const Error error = error_of([&] { parse_trace_fault(bad); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << bad;
    EXPECT_NE(error.place().find(bad), std::string::npos);
    EXPECT_NE(error.detail().find("2:13:backward:kill"), std::string::npos);
  }
}

TEST(TraceOptions, AnEmptyEnvironmentAsksForNothing) {
  for (const Environment& environment :
       {Environment{}, Environment{{"SHARDPROOF_TRACE", ""}, {"SHARDPROOF_FAULT", ""}},
        Environment{{"PATH", "/bin"}}}) {
    const TraceOptions options = TraceOptions::from_environment(environment);
    EXPECT_TRUE(options.directory.empty());
    EXPECT_TRUE(options.capture.empty());
    EXPECT_FALSE(options.capture_all);
    EXPECT_FALSE(options.digest);
    EXPECT_FALSE(options.fault.has_value());
  }
}

TEST(TraceOptions, EveryVariableIsRead) {
  const TraceOptions options =
      TraceOptions::from_environment({{"SHARDPROOF_TRACE", "/t"},
                                      {"SHARDPROOF_TENSORS", "-1,0,12"},
                                      {"SHARDPROOF_MATCH", "^blocks"},
                                      {"SHARDPROOF_DIGEST", "1"},
                                      {"SHARDPROOF_FAULT", "1:2:clipped:kill"}});
  EXPECT_EQ(options.directory, "/t");
  EXPECT_EQ(options.capture, (std::set<std::int64_t>{-1, 0, 12}));
  EXPECT_EQ(options.match, "^blocks");
  EXPECT_TRUE(options.digest);
  ASSERT_TRUE(options.fault.has_value());
  EXPECT_EQ(options.fault->phase, Phase::clipped);
  EXPECT_TRUE(TraceOptions::from_environment({{"SHARDPROOF_TENSORS", "all"}}).capture_all);
  EXPECT_FALSE(TraceOptions::from_environment({{"SHARDPROOF_DIGEST", "0"}}).digest);
}

TEST(TraceOptions, AValueThatWasTypedReplacesTheEnvironment) {
  TraceOptions options = TraceOptions::from_environment(
      {{"SHARDPROOF_TENSORS", "all"}, {"SHARDPROOF_MATCH", "^blocks"}});
  options.set_capture("3,4", "--trace-tensors");
  options.set_match("", "--trace-match");
  EXPECT_FALSE(options.capture_all);
  EXPECT_EQ(options.capture, (std::set<std::int64_t>{3, 4}));
  EXPECT_EQ(options.match, "");
  EXPECT_EQ(error_of([&] { options.set_capture("4;5", "--trace-tensors"); }).place(),
            "--trace-tensors");
  EXPECT_EQ(error_of([&] { options.set_match("(", "--trace-match"); }).place(), "--trace-match");
}

TEST(TraceOptions, AllTensorsNeedsEveryStepAndEveryName) {
  TraceOptions options;
  EXPECT_FALSE(options.all_tensors());
  options.set_capture("0,1", "here");
  EXPECT_FALSE(options.all_tensors());
  options.digest = true;
  EXPECT_TRUE(options.all_tensors());
  options.match = "w";
  EXPECT_FALSE(options.all_tensors());
  options = {};
  options.capture_all = true;
  EXPECT_TRUE(options.all_tensors());
}

TEST(TraceOptions, ABadValueNamesItsVariable) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"SHARDPROOF_TENSORS", "1,,2"}, {"SHARDPROOF_TENSORS", "1,"},  {"SHARDPROOF_TENSORS", "-2"},
      {"SHARDPROOF_TENSORS", "1 2"},  {"SHARDPROOF_TENSORS", "ALL"}, {"SHARDPROOF_MATCH", "("},
      {"SHARDPROOF_DIGEST", "yes"},   {"SHARDPROOF_FAULT", "later"}};
  for (const auto& [variable, value] : bad) {
    const Error error = error_of([&] {
      TraceOptions::from_environment({{"SHARDPROOF_TRACE", "/t"}, {variable, value}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.place(), variable);
    EXPECT_NE(error.detail().find(value), std::string::npos);
  }
}

TEST(TraceOptions, AFaultWithoutATraceWouldNeverFire) {
  const Error error = error_of([] {
    TraceOptions::from_environment({{"SHARDPROOF_FAULT", "1:2:clipped:kill"}});
  });
  EXPECT_EQ(error.place(), "SHARDPROOF_FAULT");
  EXPECT_NE(error.detail().find("SHARDPROOF_TRACE"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
