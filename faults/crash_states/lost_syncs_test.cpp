// ctest: fault timeout=300
// The model is worth something if every sync that a save makes is needed under it: take away any
// one, say that it succeeded, and a state is broken.
#include <gtest/gtest.h>

#include <iostream>

#include "faults/crash_states/scenarios.h"

namespace shardproof::crash {
namespace {

bool is_sync(const Operation& operation) {
  return operation.kind == Operation::Kind::sync ||
         operation.kind == Operation::Kind::sync_directory;
}

// The syncs that the scenario asks for after what is given, as (rank, number, label).
std::vector<Operation> syncs_of(const Scenario& scenario) {
  std::vector<Operation> syncs;
  CrashWorld world;
  if (scenario.given) scenario.given(world);
  const std::size_t before = world.journal().operations().size();
  scenario.happens(world, 0);
  const auto operations = world.journal().operations();
  for (std::size_t i = before; i < operations.size(); ++i) {
    if (is_sync(operations[i])) syncs.push_back(operations[i]);
  }
  return syncs;
}

TEST(LostSync, AnyOneBreaksAState) {
  std::size_t taken = 0;
  for (const Scenario& scenario : plain_saves()) {
    for (const Operation& gone : syncs_of(scenario)) {
      if (scenario.name == "save of an id that is there") continue;  // see below
      SurveyOptions options;
      options.stop_at_first = true;
      options.hook = [&](const Operation& operation) {
        const bool same = operation.rank == gone.rank && operation.number == gone.number;
        return same ? Do::nothing : Do::it;
      };
      const Tally tally = survey(scenario, options);
      EXPECT_EQ(tally.count(Verdict::broken), 1u)
          << scenario.name << ": no state needs " << gone.label() << " of rank " << gone.rank;
      if (tally.broken.empty()) continue;
      ++taken;
      const std::string& why = tally.broken[0];
      std::cout << "without " << gone.label() << ", rank " << gone.rank << ": "
                << why.substr(0, why.find('\n')).substr(0, 150) << "\n";
    }
  }
  EXPECT_EQ(taken, 2u * (5 + 6 + 7));  // a shard's sync a rank, two directories, manifest, its name
}

// What makes a found checkpoint durable is needed where its writer was killed before that.
TEST(LostSync, OfAnIdThatIsThereIsNeededAfterAKill) {
  const Scenario scenario{
      "save again after a kill", one_checkpoint, [](CrashWorld& world, int turn) {
        const bool more =
            world.interrupted(turn, Do::fail, true, [&] { world.save("step-2", 2, 1); });
        if (!more) return false;
        const auto last = world.journal().operations();
        const bool linked = std::any_of(last.begin(), last.end(), [](const Operation& operation) {
          return operation.to == manifest_path("step-2");
        });
        if (linked) {
          world.journal().set_hook(
              [](const Operation& operation) { return is_sync(operation) ? Do::nothing : Do::it; });
        }
        world.save("step-2", 2, 1);
        return true;
      }};
  EXPECT_GT(survey(scenario).count(Verdict::broken), 0u);
}

// The same of one that a resume goes on from: the sync that it makes is the one that is needed.
TEST(LostSync, OfWhatAResumeFoundIsNeededAfterAKill) {
  const auto none = [](const Operation& operation) {
    return is_sync(operation) ? Do::nothing : Do::it;
  };
  EXPECT_GT(survey(found_after_a_kill(none)).count(Verdict::broken), 0u);
}

}  // namespace
}  // namespace shardproof::crash
