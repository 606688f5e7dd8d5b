// ctest: unit
// Which legs run for which verdicts.
#include "harness/judge/subject_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/expect_error.h"

namespace shardproof {
namespace {

const std::string text = R"(
[subject]
launch = "run {ranks} {args} {dtype} {steps} {save} {ckpt} {resume}"
resume = "--resume"
float64 = "--float64"
reversed = "--reversed"
checkpoint = "dcp"
[layout.ref]
ranks = 1
[layout.a2]
ranks = 2
[layout.b2]
ranks = 2
bitwise = true
[layout.wrong]
ranks = 4
checks = ["layout"]
expect = {layout = "planted"}
)";

using Names = std::set<std::string>;

SubjectPlan plan(const SubjectChoice& choice, const std::vector<std::string>& set = {}) {
  const Subject subject = parse_subject(text, "a.toml", set);
  return plan_subject(subject, choice, LegFolders{"/out"});
}

Names legs(const SubjectPlan& plan) {
  Names out;
  for (const SubjectLeg& leg : plan.legs) out.insert(leg.name);
  EXPECT_EQ(out.size(), plan.legs.size()) << "no leg runs twice";
  EXPECT_EQ(plan.legs.front().name, "ref");
  Names before;
  for (const SubjectLeg& leg : plan.legs) {
    EXPECT_TRUE(leg.from.empty() || before.contains(leg.from)) << leg.name;
    EXPECT_TRUE(leg.after.empty() || before.contains(leg.after)) << leg.name;
    before.insert(leg.name);
  }
  return out;
}

TEST(SubjectPlan, RunsOnlyWhatAVerdictNeeds) {
  EXPECT_EQ(legs(plan({{"live", "cover"}, {}})), (Names{"ref", "a2", "b2"}));
  EXPECT_EQ(legs(plan({{"repeat"}, {"a2"}})), (Names{"ref", "a2", "a2.repeat"}));
  EXPECT_EQ(legs(plan({{"resume"}, {"ref"}})), (Names{"ref", "ref.resume"}));
  EXPECT_EQ(legs(plan({{"checkpoint"}, {"a2"}})), (Names{"ref", "a2"}));
  EXPECT_EQ(legs(plan({{"data"}, {"a2"}})), (Names{"ref", "a2", "a2.resume"}));
  EXPECT_EQ(legs(plan({{"live"}, {"wrong"}})), (Names{"ref"})) << "it asks for layout alone";
}

TEST(SubjectPlan, JudgesLayoutsFromTwoStartsWhereACheckpointLoadsAnywhere) {
  EXPECT_EQ(legs(plan({{"layout"}, {"a2"}})),
            (Names{"ref", "a2", "float64", "float64.from_ref", "ref.resume", "a2.from_ref"}));
  EXPECT_EQ(legs(plan({{"layout"}, {"a2"}}, {"subject.reshard=false"})),
            (Names{"ref", "a2", "float64"}));
  EXPECT_EQ(legs(plan({{"layout"}, {"a2"}}, {"layout.a2.reshard=false"})),
            (Names{"ref", "a2", "float64"}));
  EXPECT_EQ(legs(plan({{"layout"}, {"a2"}}, {"subject.float64=", "subject.accumulate=x"})),
            (Names{"ref", "a2", "ref.repeat", "ref.reversed", "ref.accumulate"}));
  EXPECT_EQ(legs(plan({{"layout"}, {"b2"}})), (Names{"ref", "b2"})) << "it claims the bits";
}

TEST(SubjectPlan, KillsOneLayoutAtEveryPhaseAndRestartsIt) {
  const SubjectPlan kills = plan({{"kill"}, {}});
  EXPECT_EQ(kills.kills, std::vector<std::string>{"a2"})
      << "the first of the largest, without those that are to fail";
  Names wanted = {"ref", "a2", "a2.stop.backward", "a2.stop.backward.restart"};
  for (const std::string phase :
       {"forward", "backward", "reduced", "clipped", "optimizer", "save"}) {
    wanted.insert("a2.kill." + phase);
    wanted.insert("a2.kill." + phase + ".restart");
  }
  EXPECT_EQ(legs(kills), wanted);
  std::set<std::string> faults;
  for (const SubjectLeg& leg : kills.legs) {
    if (leg.kill) faults.insert(leg.kill->fault());
    if (leg.in_place) {
      EXPECT_EQ(leg.name, leg.from + ".restart");
    }
  }
  EXPECT_EQ(faults,
            (std::set<std::string>{"1:4:backward:stop", "1:4:forward:kill", "1:4:backward:kill",
                                   "1:4:reduced:kill", "1:4:clipped:kill", "1:4:optimizer:kill",
                                   "1:2:save:kill"}));
  EXPECT_EQ(plan({{"kill"}, {}}, {"subject.kill=b2"}).kills, std::vector<std::string>{"b2"});
  EXPECT_EQ(plan({{"kill"}, {"wrong"}}, {"layout.wrong.checks=[\"kill\", \"layout\"]"}).kills,
            std::vector<std::string>{"wrong"});
}

TEST(SubjectPlan, FillsTheCommandOfALeg) {
  const Subject subject = parse_subject(text, "a.toml", {"layout.a2.args=--mode \"$HOME\""});
  const LegFolders folders{"/o u't"};
  SubjectLeg leg{.name = "a2.x", .layout = "a2"};
  leg.args = "--reversed";
  EXPECT_EQ(command_of(subject, leg, folders, false),
            "run 2 --mode \"$HOME\" --reversed  6 3 '/o u'\\''t/checkpoints/a2.x' ");
  leg.float64 = true;
  leg.args.clear();
  leg.from = "ref";
  EXPECT_EQ(command_of(subject, leg, LegFolders{"/out"}, true),
            "run 2 --mode \"$HOME\" --float64 6 3 /out/checkpoints/a2.x --resume");
  const std::string deep = "/" + std::string(300000, 'd');
  EXPECT_NE(command_of(subject, leg, LegFolders{deep}, true).find(deep), std::string::npos);
  const Subject inner = parse_subject(text, "a.toml",
                                      {"subject.resume=--resume {ckpt}/{save}.pt",
                                       "layout.a2.args=-n {ranks}", "subject.float64=-e {steps}"});
  leg.args = "--reversed {ranks}";
  EXPECT_EQ(command_of(inner, leg, LegFolders{"/o"}, true),
            "run 2 -n 2 --reversed 2 -e 6 6 3 /o/checkpoints/a2.x --resume "
            "/o/checkpoints/a2.x/3.pt");
  leg.in_place = true;
  EXPECT_NE(command_of(subject, leg, LegFolders{"/out"}, true).find("/out/checkpoints/ref "),
            std::string::npos);
}

TEST(SubjectPlan, HasASentenceForEveryVerdictAndNoVerdictWithoutTraces) {
  const SubjectPlan all = plan({});
  std::set<std::string> checks;
  for (const PlannedCheck& planned : all.checks) {
    const Verdict verdict = planned.judge({});
    EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << planned.subject;
    EXPECT_FALSE(verdict.sentence.empty()) << planned.subject;
    EXPECT_EQ(verdict.check, planned.check);
    checks.insert(planned.check);
    for (const std::string& leg : planned.legs) EXPECT_TRUE(legs(all).contains(leg)) << leg;
  }
  EXPECT_EQ(checks.size(), std::size(subject_checks));
}

TEST(SubjectPlan, RefusesNamesThatAreNotThere) {
  const Subject subject = parse_subject(text, "a.toml");
  expect_error(ErrorKind::bad_input, {"--only speed", "live, cover"}, [&] {
    check_choice(subject, {{"speed"}, {}});
  });
  expect_error(ErrorKind::bad_input, {"--layout c2", "ref, a2"}, [&] {
    check_choice(subject, {{}, {"c2"}});
  });
  EXPECT_NO_THROW(check_choice(subject, {{"live"}, {"a2"}}));
}

}  // namespace
}  // namespace shardproof
