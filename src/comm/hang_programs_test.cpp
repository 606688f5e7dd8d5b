// ctest: comm timeout=120
// The verdict on the standstills of random programs into which one fault was planted; healthy
// programs are never called hung.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "comm/hang_analysis.h"
#include "comm/hang_testing.h"

namespace shardproof {
namespace {

using hang_testing::collective;
using hang_testing::completed;
using hang_testing::message;
using hang_testing::Ranks;
using hang_testing::waited;

struct Step {
  std::string op;
  Ranks members;  // of a message: sender, receiver
};

enum class Planted { none, stopped, ended, computes, skips };

// Ranks that carry out one list of operations, each those of which it is a member, one at a time.
class Simulation {
 public:
  Simulation(std::mt19937& random, Planted planted) : random_(random), planted_(planted) {
    ranks_ = draw(2, 5);
    const int length = draw(4, 14);
    for (int i = 0; i < length; ++i) program_.push_back(draw_step());
    faulty_ = draw(0, ranks_ - 1);
    fault_at_ = draw(0, length - 1);
    next_.assign(static_cast<std::size_t>(ranks_), 0);
    in_.assign(next_.size(), false);
    for (int rank = 0; rank < ranks_; ++rank) go_on(rank);
  }

  int faulty() const { return faulty_; }
  int ranks() const { return ranks_; }
  bool fired() const { return fired_; }

  // Lets one rank begin its next operation, or ends one that is complete; false: nothing moves.
  bool move() {
    std::vector<int> able;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!in_[at(rank)] && next_[at(rank)] < program_.size() && !held(rank)) able.push_back(rank);
      if (in_[at(rank)] && complete(next_[at(rank)])) able.push_back(rank);
    }
    if (able.empty()) return false;
    const int rank = able[at(draw(0, static_cast<int>(able.size()) - 1))];
    if (!in_[at(rank)]) {
      in_[at(rank)] = true;
      begun_[{next_[at(rank)], rank}] = true;
    } else {
      in_[at(rank)] = false;
      ++next_[at(rank)];
      go_on(rank);
    }
    return true;
  }

  FlightRecords records() const {
    FlightRecords records;
    for (int rank = 0; rank < ranks_; ++rank) {
      RankRecords& mine = records.ranks.emplace_back();
      mine.rank = rank;
      if (next_[at(rank)] >= program_.size()) mine.life = RankLife::running;
      if (held(rank) && planted_ == Planted::stopped) mine.life = RankLife::stopped;
      if (held(rank) && planted_ == Planted::ended) mine.life = RankLife::ended;
      if (held(rank) && planted_ == Planted::computes) mine.pulse_ago = 99;
      std::map<std::string, std::uint64_t> numbers;
      for (std::size_t i = 0; i < program_.size(); ++i) {
        if (!begun_.contains({i, rank})) continue;
        OperationRecord record = record_of(program_[i], rank);
        record.sequence = numbers[numbering_of(record, rank)]++;
        const bool stands = in_[at(rank)] && next_[at(rank)] == i;
        mine.operations.push_back(stands ? waited(record) : completed(record));
      }
    }
    return records;
  }

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  Step draw_step() {
    Ranks all(at(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) all[at(rank)] = rank;
    std::shuffle(all.begin(), all.end(), random_);
    if (draw(0, 2) == 0) return {"message", {all[0], all[1]}};
    Ranks members(all.begin(), all.begin() + draw(2, ranks_));
    std::sort(members.begin(), members.end());
    return {draw(0, 1) == 0 ? "all_reduce" : "barrier", members};
  }

  OperationRecord record_of(const Step& step, int rank) const {
    if (step.op == "message") {
      const bool sends = step.members[0] == rank;
      return message(sends ? "send" : "recv", step.members[sends ? 1 : 0], 0);
    }
    std::string group = "g";
    for (const int member : step.members) group += std::to_string(member);
    return collective(group, step.members, 0, step.op);
  }

  bool takes_part(std::size_t step, int rank) const {
    const Ranks& members = program_[step].members;
    return std::find(members.begin(), members.end(), rank) != members.end();
  }

  // To the rank's next operation; a planted skip leaves one out.
  void go_on(int rank) {
    std::size_t& next = next_[at(rank)];
    for (; next < program_.size(); ++next) {
      if (!takes_part(next, rank)) continue;
      if (planted_ != Planted::skips || rank != faulty_ || next != at(fault_at_)) break;
      fired_ = true;
    }
    if (held(rank)) fired_ = true;
  }

  // Has the fault caught the rank before its next operation?
  bool held(int rank) const {
    return planted_ != Planted::none && planted_ != Planted::skips && rank == faulty_ &&
           next_[at(rank)] >= at(fault_at_);
  }

  // As numbers match, not steps: after a skip another step may be met under the same number.
  bool complete(std::size_t step) const {
    const auto number = [&](std::size_t upto, int rank) {
      const std::string mine = numbering_of(record_of(program_[step], rank), rank);
      std::uint64_t count = 0;
      for (std::size_t i = 0; i < upto; ++i) {
        if (begun_.contains({i, rank}) &&
            numbering_of(record_of(program_[i], rank), rank) == mine) {
          ++count;
        }
      }
      return count;
    };
    const Ranks& members = program_[step].members;
    const int self = *std::find_if(members.begin(), members.end(), [&](int rank) {
      return in_[at(rank)] && next_[at(rank)] == step;
    });
    const std::uint64_t wanted = number(step, self);
    return std::all_of(members.begin(), members.end(),
                       [&](int rank) { return number(program_.size(), rank) > wanted; });
  }

  std::mt19937& random_;
  const Planted planted_;
  int ranks_ = 0;
  std::vector<Step> program_;
  int faulty_ = 0;
  int fault_at_ = 0;
  bool fired_ = false;
  std::vector<std::size_t> next_;  // by rank
  std::vector<bool> in_;           // by rank: has it begun the next one
  std::map<std::pair<std::size_t, int>, bool> begun_;
};

TEST(HangPrograms, AHealthyProgramIsNeverCalledHung) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Simulation simulation(random, Planted::none);
    do {
      const HangVerdict verdict = analyse_hang(simulation.records());
      ASSERT_FALSE(verdict.certain) << verdict.text;
    } while (simulation.move());
    ASSERT_EQ(analyse_hang(simulation.records()).kind, HangKind::none);
  }
}

void expect_culprit(Planted planted, HangKind kind) {
  std::mt19937 random(static_cast<unsigned>(planted) + 10);
  int found = 0;
  for (int round = 0; round < 200; ++round) {
    Simulation simulation(random, planted);
    while (simulation.move()) {
    }
    const HangVerdict verdict = analyse_hang(simulation.records());
    if (verdict.kind == HangKind::none) continue;  // nobody needed it any more
    ++found;
    ASSERT_EQ(verdict.kind, kind) << verdict.text;
    ASSERT_TRUE(verdict.certain);
    ASSERT_EQ(verdict.culprits, Ranks{simulation.faulty()}) << verdict.text;
  }
  EXPECT_GT(found, 100);
}

TEST(HangPrograms, StoppedRanksAreFoundInRandomPrograms) {
  expect_culprit(Planted::stopped, HangKind::stopped);
}

TEST(HangPrograms, EndedRanksAreFoundInRandomPrograms) {
  expect_culprit(Planted::ended, HangKind::ended);
}

TEST(HangPrograms, EndlessLoopsAreFoundInRandomPrograms) {
  expect_culprit(Planted::computes, HangKind::stalled);
}

TEST(HangPrograms, ASkippedOperationIsFoundInRandomPrograms) {
  std::mt19937 random(99);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    Simulation simulation(random, Planted::skips);
    while (simulation.move()) {
    }
    const HangVerdict verdict = analyse_hang(simulation.records());
    if (verdict.kind == HangKind::none) continue;
    ++found;
    ASSERT_TRUE(simulation.fired());
    Ranks named = verdict.culprits;
    named.insert(named.end(), verdict.cycle.begin(), verdict.cycle.end());
    named.insert(named.end(), verdict.waiting.begin(), verdict.waiting.end());
    for (const WaitsFor& edge : verdict.edges) named.push_back(edge.to);
    ASSERT_NE(std::find(named.begin(), named.end(), simulation.faulty()), named.end())
        << "rank " << simulation.faulty() << " is not named in\n"
        << verdict.text;
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace shardproof
