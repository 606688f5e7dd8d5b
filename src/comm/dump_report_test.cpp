// ctest: unit
// What dumps of all ranks say together, on dumps written here.
#include "comm/dump_report.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

using Finding = DumpReport::Finding;
using State = OperationRecord::State;

OperationRecord collective(const std::string& op, std::uint64_t sequence, State state) {
  OperationRecord operation;
  operation.group = "world";
  operation.members = {0, 1, 2};
  operation.sequence = sequence;
  operation.op = op;
  operation.dtype = "F32";
  operation.send_counts = operation.recv_counts = {8};
  operation.state = state;
  return operation;
}

OperationRecord message(const std::string& op, int peer) {
  OperationRecord message = collective(op, 0, State::started);
  (op == "send" ? message.recv_counts : message.send_counts).clear();
  message.peer = peer;
  return message;
}

FlightDump dump(int rank, std::vector<OperationRecord> operations) {
  FlightDump dump;
  dump.records.rank = rank;
  dump.records.operations = std::move(operations);
  dump.groups["world"] = {0, 1, 2};
  return dump;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DumpReport, AllCompletedIsNothingWrong) {
  std::vector<FlightDump> dumps;
  for (int rank = 0; rank < 3; ++rank) {
    dumps.push_back(dump(rank, {collective("all_reduce", 0, State::completed)}));
  }
  const DumpReport report = report_on(dumps);
  EXPECT_EQ(report.finding, Finding::nothing) << report.text();
  EXPECT_TRUE(says(report.text(), "last completed #0 on ranks 0-2")) << report.text();
}

TEST(DumpReport, TheMissingRankIsNamed) {
  const auto before = collective("all_reduce", 0, State::completed);
  for (const State state : {State::started, State::failed}) {
    const auto stuck = collective("all_reduce", 1, state);
    const DumpReport report =
        report_on({dump(0, {before, stuck}), dump(1, {before}), dump(2, {before, stuck})});
    EXPECT_EQ(report.finding, Finding::named);
    EXPECT_EQ(report.hang.culprits, std::vector<int>{1});
    EXPECT_EQ(report.hang.operation, "world all_reduce #1");
    EXPECT_TRUE(says(report.text(), "rank 0 waits for rank 1 in world all_reduce #1"));
    EXPECT_TRUE(says(report.text(), "last issued #0 on rank 1, #1 on ranks 0,2")) << report.text();
    EXPECT_EQ(report.to_json()["culprits"].dump(), "[1]");
  }
}

TEST(DumpReport, AMismatchIsNamedThoughAllCompleted) {
  auto odd = collective("all_reduce", 0, State::completed);
  const auto plain = odd;
  odd.dtype = "F64";
  odd.reduce = "sum";
  auto other = plain;
  other.reduce = "sum";
  const DumpReport report = report_on({dump(0, {other}), dump(1, {odd}), dump(2, {other})});
  EXPECT_EQ(report.finding, Finding::named);
  EXPECT_EQ(report.summary,
            "the ranks disagree on world #0: dtype: F32 on ranks 0,2; F64 on rank 1");
}

TEST(DumpReport, TheOrderOfCollectivesAndCountsAreCompared) {
  const auto named = [](const OperationRecord& odd) {
    const auto plain = collective("all_reduce", 0, State::started);
    return report_on({dump(0, {plain}), dump(1, {plain}), dump(2, {odd})}).summary;
  };
  EXPECT_EQ(named(collective("broadcast", 0, State::started)),
            "the ranks disagree on world #0: operation: all_reduce on ranks 0,1; broadcast on rank "
            "2");
  auto more = collective("all_reduce", 0, State::started);
  more.send_counts = {9};
  EXPECT_TRUE(says(named(more), "count: 8 on ranks 0,1; 9 on rank 2"));
}

TEST(DumpReport, ACircleOfMessagesIsNamed) {
  const DumpReport report = report_on({dump(0, {message("send", 1)}), dump(1, {message("send", 2)}),
                                       dump(2, {message("send", 0)})});
  EXPECT_EQ(report.finding, Finding::named);
  EXPECT_EQ(report.hang.kind, HangKind::deadlock);
  EXPECT_TRUE(says(report.text(), "cycle: 0 -> 1 -> 2 -> 0")) << report.text();
}

TEST(DumpReport, WithoutARanksDumpNothingIsDecided) {
  const auto stuck = collective("all_reduce", 0, State::started);
  const DumpReport report = report_on({dump(0, {stuck}), dump(2, {stuck})});
  EXPECT_EQ(report.finding, Finding::undecided);
  EXPECT_EQ(report.absent, std::vector<int>{1});
  EXPECT_TRUE(says(report.summary, "no dump of rank 1")) << report.summary;
  const auto done = collective("all_reduce", 0, State::completed);
  EXPECT_EQ(report_on({dump(0, {done}), dump(2, {done})}).finding, Finding::undecided);
}

TEST(DumpReport, AllInOneOperationIsUndecided) {
  const auto stuck = collective("all_reduce", 0, State::started);
  const DumpReport report = report_on({dump(0, {stuck}), dump(1, {stuck}), dump(2, {stuck})});
  EXPECT_EQ(report.finding, Finding::undecided) << report.text();
}

// gloo says neither who is in a group nor how an operation ended.
TEST(DumpReport, WhatEndedSomehowCompletedWhereAllCameAndAgree) {
  const auto gloo = [](int rank, std::uint64_t operations, const char* dtype) {
    FlightDump made;
    made.records.rank = rank;
    for (std::uint64_t i = 0; i < operations; ++i) {
      auto operation = collective("all_reduce", i, State::failed);
      operation.members.clear();
      operation.dtype = dtype;
      made.ended_somehow.push_back(i);
      made.records.operations.push_back(operation);
    }
    return made;
  };
  EXPECT_EQ(report_on({gloo(0, 2, "F"), gloo(1, 2, "F")}).finding, Finding::nothing);
  const DumpReport missing = report_on({gloo(0, 3, "F"), gloo(1, 2, "F")});
  EXPECT_EQ(missing.finding, Finding::named);
  EXPECT_EQ(missing.hang.culprits, std::vector<int>{1}) << missing.text();
  EXPECT_TRUE(says(missing.text(), "as their dumps say): last completed #1 on ranks 0"));
  EXPECT_EQ(report_on({gloo(0, 2, "F"), gloo(1, 2, "D")}).finding, Finding::named);
}

TEST(DumpReport, TwoGroupsOfOneNameAreToldApart) {
  std::vector<FlightDump> dumps;
  for (int rank = 0; rank < 4; ++rank) {
    auto operation = collective(rank < 2 ? "all_reduce" : "broadcast", 0, State::completed);
    operation.members = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    dumps.push_back(dump(rank, {operation}));
    dumps.back().groups["world"] = operation.members;
  }
  const DumpReport report = report_on(dumps);
  EXPECT_EQ(report.finding, Finding::nothing) << report.text();
  EXPECT_EQ(report.groups.size(), 2u);
}

}  // namespace
}  // namespace shardproof
