// ctest: comm
// The verdict on records written by hand, one for each kind.
#include "comm/hang_analysis.h"

#include <gtest/gtest.h>

#include "comm/group_progress.h"
#include "comm/hang_testing.h"

namespace shardproof {
namespace {

using State = OperationRecord::State;
using hang_testing::collective;
using hang_testing::completed;
using hang_testing::message;
using hang_testing::Ranks;
using hang_testing::waited;

RankRecords rank_with(int rank, std::vector<OperationRecord> operations) {
  RankRecords records;
  records.rank = rank;
  records.operations = std::move(operations);
  return records;
}

// Ranks 0 to 2 wait in world all_reduce #1, rank 3 has completed #0.
FlightRecords rank_3_is_missing() {
  FlightRecords records;
  const Ranks all{0, 1, 2, 3};
  for (int rank = 0; rank < 3; ++rank) {
    records.ranks.push_back(rank_with(
        rank, {completed(collective("world", all, 0)), waited(collective("world", all, 1))}));
  }
  records.ranks.push_back(rank_with(3, {completed(collective("world", all, 0))}));
  return records;
}

TEST(HangAnalysis, NobodyWaits) {
  FlightRecords records = rank_3_is_missing();
  for (RankRecords& rank : records.ranks) rank.operations.resize(1);
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::none);
  EXPECT_FALSE(verdict.certain);
}

TEST(HangAnalysis, AStoppedRankIsNamed) {
  FlightRecords records = rank_3_is_missing();
  records.ranks[3].life = RankLife::stopped;
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::stopped);
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.culprits, Ranks{3});
  EXPECT_EQ(verdict.waiting, (Ranks{0, 1, 2}));
  EXPECT_EQ(verdict.summary,
            "rank 3 is stopped (SIGSTOP or a debugger): missing from world all_reduce #1, in which "
            "ranks 0-2 have waited 1.5 s");
  EXPECT_NE(verdict.text.find("rank 3 is stopped; last world all_reduce #0 (8 f32) completed"),
            std::string::npos)
      << verdict.text;
}

TEST(HangAnalysis, ARankThatHasEndedIsNamed) {
  FlightRecords records = rank_3_is_missing();
  records.ranks[3].life = RankLife::ended;
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::ended);
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.culprits, Ranks{3});
}

TEST(HangAnalysis, ARankThatIsStoppedInTheMiddleIsNamed) {
  FlightRecords records = rank_3_is_missing();
  OperationRecord mine = waited(collective("world", {0, 1, 2, 3}, 1));
  records.ranks[3].operations.push_back(mine);
  EXPECT_EQ(analyse_hang(records).kind, HangKind::slow_transfer);
  records.ranks[3].life = RankLife::stopped;
  const HangVerdict verdict = analyse_hang(records, {}, 0);
  EXPECT_EQ(verdict.kind, HangKind::stopped);
  EXPECT_EQ(verdict.culprits, Ranks{3});
  records.ranks[3].operations.back().state = State::completed;
  EXPECT_EQ(analyse_hang(records, {}, 0).kind, HangKind::slow_transfer) << "it has done its part";
}

TEST(HangAnalysis, ASlowRankIsAStragglerUntilItHasStoodStillForLong) {
  FlightRecords records = rank_3_is_missing();
  records.ranks[3].pulse_ago = 29;
  const HangVerdict slow = analyse_hang(records, {.stall_seconds = 30});
  EXPECT_EQ(slow.kind, HangKind::straggler);
  EXPECT_FALSE(slow.certain);
  EXPECT_EQ(slow.culprits, Ranks{3});
  EXPECT_NE(slow.summary.find("1.5 s behind"), std::string::npos) << slow.summary;
  records.ranks[3].pulse_ago = 30;
  const HangVerdict hung = analyse_hang(records, {.stall_seconds = 30});
  EXPECT_EQ(hung.kind, HangKind::stalled);
  EXPECT_TRUE(hung.certain);
}

TEST(HangAnalysis, ARankThatIsNotHeardOfIsSilent) {
  FlightRecords records = rank_3_is_missing();
  records.ranks.pop_back();
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::silent);
  EXPECT_FALSE(verdict.certain);
  EXPECT_EQ(verdict.culprits, Ranks{3});
}

TEST(HangAnalysis, ARankInAnotherOperationTookAnotherBranch) {
  FlightRecords records = rank_3_is_missing();
  records.ranks[3].operations.push_back(waited(message("recv", 0, 0)));
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::other_branch);
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.culprits, Ranks{3});
  EXPECT_EQ(verdict.waiting, (Ranks{0, 1, 2}));
  EXPECT_EQ(verdict.cycle, (Ranks{0, 3}));
}

TEST(HangAnalysis, ARankThatWentPastTheOperationIsTold) {
  FlightRecords records = rank_3_is_missing();
  for (RankRecords& rank : records.ranks) rank.operations.back().at = {2, 1, "backward"};
  records.ranks[3].at = {2, 2, "reduced"};
  const HangVerdict moving = analyse_hang(records);
  EXPECT_EQ(moving.kind, HangKind::skipped);
  EXPECT_FALSE(moving.certain) << "it might still come";
  records.ranks[3].operations.push_back(waited(collective("world/dp", {0, 3}, 0)));
  const HangVerdict standing = analyse_hang(records);
  EXPECT_EQ(standing.kind, HangKind::skipped);
  EXPECT_TRUE(standing.certain);
  EXPECT_EQ(standing.culprits, Ranks{3});
  EXPECT_EQ(standing.operation, "world all_reduce #1");
}

TEST(HangAnalysis, RanksThatWaitInACircleAreADeadlock) {
  FlightRecords records;
  records.ranks.push_back(rank_with(1, {waited(message("recv", 2, 0))}));
  records.ranks.push_back(rank_with(0, {waited(message("recv", 1, 0))}));
  records.ranks.push_back(rank_with(2, {waited(message("recv", 0, 0))}));
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::deadlock);
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.cycle, (Ranks{0, 1, 2}));
  EXPECT_TRUE(verdict.culprits.empty());
  EXPECT_EQ(verdict.summary,
            "deadlock: rank 0 waits in world recv from rank 1 tag 7 #0 (8 f32) for rank 1, rank 1 "
            "waits in world recv from rank 2 tag 7 #0 (8 f32) for rank 2, rank 2 waits in world "
            "recv from rank 0 tag 7 #0 (8 f32) for rank 0");
}

TEST(HangAnalysis, TheEndOfAChainIsToBlame) {
  FlightRecords records;
  records.ranks.push_back(rank_with(0, {waited(message("recv", 1, 0))}));
  records.ranks.push_back(rank_with(1, {waited(message("recv", 2, 0))}));
  records.ranks.push_back(rank_with(2, {}));
  records.ranks[2].life = RankLife::stopped;
  const HangVerdict verdict = analyse_hang(records, {}, 0);
  EXPECT_EQ(verdict.kind, HangKind::stopped);
  EXPECT_EQ(verdict.culprits, Ranks{2});
  EXPECT_EQ(verdict.operation, "world recv from rank 2 tag 7 #0");
}

TEST(HangAnalysis, DifferentCallsUnderOneNumberAreAMismatch) {
  FlightRecords records = rank_3_is_missing();
  OperationRecord other = waited(collective("world", {0, 1, 2, 3}, 1));
  other.dtype = "f64";
  other.send_counts = {9};
  records.ranks[3].operations.push_back(other);
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::mismatch);
  EXPECT_TRUE(verdict.certain);
  EXPECT_EQ(verdict.culprits, Ranks{3});
  EXPECT_EQ(verdict.summary,
            "the ranks disagree on world #1: dtype: f32 on ranks 0-2; f64 on rank 3, count: 8 on "
            "ranks 0-2; 9 on rank 3");
}

TEST(HangAnalysis, ABackgroundThreadsWaitIsNotTheMainThreads) {
  // Rank 0 waits for rank 1, whose background thread waits for that of rank 0: no circle.
  FlightRecords records;
  const Ranks both{0, 1};
  records.ranks.push_back(rank_with(0, {waited(collective("world", both, 0))}));
  records.ranks.push_back(rank_with(1, {waited(collective("world/background", both, 0))}));
  records.ranks[1].operations[0].lane = 1;
  for (RankRecords& rank : records.ranks) rank.lanes = {{"world", 0}, {"world/background", 1}};
  const HangVerdict verdict = analyse_hang(records);
  EXPECT_EQ(verdict.kind, HangKind::straggler);
  EXPECT_FALSE(verdict.certain);
}

TEST(HangAnalysis, AStandstillIsTheSameInTwoLooks) {
  const FlightRecords first = rank_3_is_missing();
  const HangVerdict verdict = analyse_hang(first);
  EXPECT_TRUE(same_standstill(first, first, verdict));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    FlightRecords second = first;
    ++second.ranks[rank].pulses;
    EXPECT_FALSE(same_standstill(first, second, verdict)) << rank;
    second = first;
    second.ranks[rank].life = RankLife::stopped;
    EXPECT_FALSE(same_standstill(first, second, verdict)) << rank;
  }
}

TEST(HangAnalysis, RecordsAsJsonAreTheSame) {
  FlightRecords records = rank_3_is_missing();
  RankRecords& rank = records.ranks[0];
  rank.issued = {{"world", 2}};
  rank.lanes = {{"world", 0}};
  rank.at = {4, 1, "backward"};
  rank.operations.push_back(waited(message("recv", 2, 3)));
  const Json json = to_json(rank);
  EXPECT_EQ(to_json(rank_records_from_json(json, "test")).dump(), json.dump());
  Json damaged = json;
  damaged["operations"][0]["state"] = "lost";
  EXPECT_THROW(rank_records_from_json(damaged, "test"), Error);
  damaged = json;
  damaged["issued"]["world"] = -1;
  EXPECT_THROW(rank_records_from_json(damaged, "test"), Error);
}

TEST(HangAnalysis, ProgressIsTheHighestNumberOfEachMember) {
  const auto progress = progress_of(rank_3_is_missing());
  ASSERT_EQ(progress.size(), 1u);
  EXPECT_EQ(progress[0].issued, (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(progress[0].completed, (std::vector<std::int64_t>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace shardproof
