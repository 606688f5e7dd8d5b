// ctest: unit
// The climb alone, on rungs that say at once what they come to.
#include "harness/ladder.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shardproof {
namespace {

Rung rung(const std::string& name, Outcome outcome) {
  return {name, "what " + name + " compares", [outcome] {
            Verdict verdict;
            verdict.outcome = outcome;
            verdict.reason = outcome == Outcome::pass ? "" : "its reason";
            return verdict;
          }};
}

Rung broken(const std::string& name, ErrorKind kind) {
  return {name, "", [kind]() -> Verdict { throw Error(kind, "here", "it broke"); }};
}

std::vector<std::string> words(const Climb& climb) {
  std::vector<std::string> out;
  for (const ClimbedRung& rung : climb.rungs) out.emplace_back(word(rung));
  return out;
}

std::vector<Verdict> verdicts(const Climb& climb) {
  std::vector<Verdict> out;
  for (const ClimbedRung& rung : climb.rungs) out.push_back(rung.verdict);
  return out;
}

using Words = std::vector<std::string>;

TEST(Ladder, IsClimbedToTheTopWhereEveryRungPasses) {
  const Climb all = climb({rung("one", Outcome::pass), rung("two", Outcome::pass)}, {});
  EXPECT_EQ(words(all), (Words{"pass", "pass"}));
  EXPECT_EQ(exit_code(verdicts(all)), 0);
  EXPECT_EQ(all.rungs[1].verdict.check, "two");
  EXPECT_EQ(all.rungs[1].verdict.sentence, "what two compares");
}

TEST(Ladder, StopsAtTheFirstRungThatFails) {
  int judged = 0;
  Rung last = rung("three", Outcome::pass);
  last.judge = [&judged] {
    ++judged;
    return Verdict();
  };
  ClimbOptions options;
  options.replay = [](int number) { return "again " + std::to_string(number); };
  const Climb stopped =
      climb({rung("one", Outcome::pass), rung("two", Outcome::fail), last}, options);
  EXPECT_EQ(words(stopped), (Words{"pass", "fail", "not reached"}));
  EXPECT_EQ(exit_code(verdicts(stopped)), 1);
  EXPECT_EQ(judged, 0);
  EXPECT_EQ(stopped.rungs[1].verdict.replay, "again 2");
  EXPECT_EQ(stopped.rungs[2].verdict.reason, "not reached: \"two\" failed");
}

TEST(Ladder, ACloserReplayLineStays) {
  Rung failing = rung("one", Outcome::fail);
  failing.judge = [] {
    Verdict verdict;
    verdict.outcome = Outcome::fail;
    verdict.replay = "shardproof replay 'run.layout=dp2'";
    return verdict;
  };
  ClimbOptions options;
  options.replay = [](int) { return "the whole rung"; };
  EXPECT_EQ(climb({failing}, options).rungs[0].verdict.replay,
            "shardproof replay 'run.layout=dp2'");
}

TEST(Ladder, GoesOnPastWhatCannotBeDecidedHereAndIsNoPass) {
  for (const Rung& open :
       {rung("two", Outcome::inconclusive), broken("two", ErrorKind::environment)}) {
    const Climb passed =
        climb({rung("one", Outcome::pass), open, rung("three", Outcome::pass)}, {});
    EXPECT_EQ(words(passed), (Words{"pass", "not verified", "pass"}));
    EXPECT_EQ(exit_code(verdicts(passed)), 3);
    EXPECT_FALSE(passed.rungs[1].verdict.reason.empty());
  }
}

TEST(Ladder, ARunThatBreaksIsAFailure) {
  const Climb broke = climb({broken("one", ErrorKind::peer_died), rung("two", Outcome::pass)}, {});
  EXPECT_EQ(words(broke), (Words{"fail", "not reached"}));
  EXPECT_NE(broke.rungs[0].verdict.reason.find("it broke"), std::string::npos);
}

TEST(Ladder, OneRungIsClimbedAlone) {
  ClimbOptions options;
  options.only = 2;
  const Climb alone = climb({rung("one", Outcome::fail), rung("two", Outcome::pass)}, options);
  EXPECT_EQ(words(alone), (Words{"pass"}));
  EXPECT_EQ(alone.rungs[0].number, 2);
}

TEST(Ladder, AStopEndsItWithoutAVerdict) {
  std::atomic<bool> stop{false};
  Rung second = rung("two", Outcome::fail);
  second.judge = [&stop] {
    stop = true;
    return Verdict();
  };
  ClimbOptions options;
  options.stop = &stop;
  std::vector<int> told;
  options.ended = [&told](const ClimbedRung& rung) { told.push_back(rung.number); };
  const Climb stopped =
      climb({rung("one", Outcome::pass), second, rung("three", Outcome::pass)}, options);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.rungs.size(), 1u);
  EXPECT_EQ(told, std::vector<int>{1});
}

}  // namespace
}  // namespace shardproof
