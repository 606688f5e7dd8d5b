// ctest: invariant timeout=120 processors=2
// What runs count is what is predicted, in both reductions; a call too many, a call too few, and
// bytes that nobody predicted are seen and named.
#include "harness/check_calls.h"

#include <gtest/gtest.h>

#include "harness/layout_list.h"
#include "harness/layout_run.h"

namespace shardproof {
namespace {

Trace traced(const std::string& layout, const char* reduction, CaseKind kind = CaseKind::shallow) {
  Config config = case_config(kind);
  config.training.steps = 2;
  config.run.layout = layout;
  config.numerics.reduction = reduction;
  return traced_in_memory(config);
}

TEST(CheckCalls, NativeRunsMakeWhatIsPredicted) {
  for (const char* layout :
       {"dp2", "dp4.zero1-shard2", "dp2.zero3", "tp2.sp", "dp2.tp2.cp2.zero2", "cp2-ulysses"}) {
    const Verdict verdict = check_calls(traced(layout, "native"));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << layout << ": " << verdict.reason;
  }
  for (const char* layout : {"pp2-zb", "dp2.pp2-int2.zero3", "tp2.sp.pp2.zero1"}) {
    const Verdict verdict = check_calls(traced(layout, "native", CaseKind::deep));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << layout << ": " << verdict.reason;
  }
}

Json& call_of(Trace& trace, const std::string& group, const std::string& op) {
  for (Json& event : trace.ranks[1].others) {
    if (event.at("kind") == "comm" && event.at("part") == "step" && event.at("step") == 1 &&
        event.at("group").get<std::string>().ends_with(group) && event.at("op") == op) {
      return event;
    }
  }
  throw std::logic_error("no such call: " + group + " " + op);
}

void expect_fail(const Trace& trace, const std::string& says) {
  const Verdict verdict = check_calls(trace);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find(says), std::string::npos) << verdict.reason;
}

TEST(CheckCalls, WhatDiffersIsNamed) {
  const Trace right = traced("dp2.zero1", "canonical");
  EXPECT_EQ(check_calls(right).outcome, Outcome::pass);
  Trace wrong = right;
  Json& calls = call_of(wrong, "/state.0", "all_gather")["n"];
  calls = calls.get<int>() + 1;
  expect_fail(wrong, "step 1, rank 1: state all_gather F32 ");

  wrong = right;
  call_of(wrong, "/dp.0", "all_to_all")["op"] = "all_reduce";
  expect_fail(wrong, "step 1, rank 1: dp all_reduce F32 ");

  wrong = right;
  wrong.ranks[0].steps[0].extra["bytes_sent"] =
      wrong.ranks[0].steps[0].extra.at("bytes_sent").get<int>() - 4;
  expect_fail(wrong, "step 0, rank 0: ");
}

TEST(CheckCalls, AGatherBringsItsOffloadedShareInOnce) {
  for (const bool reshard : {true, false}) {
    Config config = case_config(CaseKind::shallow);
    config.training.steps = 2;
    config.run.layout = "dp2.tp2.zero3";
    config.parallel.offload_parameters = "host";
    config.parallel.reshard_after_forward = reshard;
    Trace trace = traced_in_memory(config);
    const Verdict verdict = check_calls(trace);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    for (Json& event : trace.ranks[1].others) {
      if (event.at("kind") != "memory" || event.at("step") != 1) continue;
      Json& bytes = event.at("offload").at("parameters").at("bytes_in");
      bytes = bytes.get<int>() + 4;
    }
    expect_fail(trace, "step 1, rank 1: ");
  }
}

TEST(CheckCalls, ATraceWithoutAConfigOrStepsProvesNothing) {
  Trace trace = traced("dp2", "canonical");
  EXPECT_EQ(check_calls({}).outcome, Outcome::inconclusive);
  trace.ranks[1].run.erase("config");
  EXPECT_EQ(check_calls(trace).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof
