// ctest: unit
// Where a dead rank was.
#include "harness/last_places.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace shardproof {
namespace {

ControlEvent at(int rank, std::int64_t step, const char* phase) {
  return {.kind = ControlEvent::Kind::at, .rank = rank, .text = phase, .step = step};
}

TEST(LastPlaces, TheLastWordOfARankIsItsPlace) {
  LastPlaces places(2);
  places.take(at(1, 0, "forward"), 1.0);
  places.take(at(1, 3, "backward"), 2.0);
  places.take(at(0, 4, "update"), 2.5);
  const Death death = places.death(1, 2.5);
  EXPECT_EQ(places.last_heard(), 2.5) << "of any rank";
  EXPECT_EQ(death.rank, 1);
  EXPECT_EQ(death.noticed_seconds, 2.5);
  EXPECT_EQ(death.silent_seconds, 0.5);
  EXPECT_EQ(death.place, "step 3, backward");
  EXPECT_EQ(places.death_event(1, 2.5), Json({{"kind", "death"},
                                              {"rank", 1},
                                              {"seconds", 2.5},
                                              {"step", 3},
                                              {"phase", "backward"},
                                              {"silent_seconds", 0.5}}));
}

TEST(LastPlaces, ARankThatNeverSpokeHasNone) {
  LastPlaces places(2);
  places.take(at(0, 0, "forward"), 1.0);
  places.hear(1, 1.75);
  EXPECT_EQ(places.death(1, 2.0).place, "");
  EXPECT_EQ(places.death(1, 2.0).silent_seconds, 0.25);
  EXPECT_EQ(places.death_event(1, 2.0), Json({{"kind", "death"}, {"rank", 1}, {"seconds", 2.0}}));
}

TEST(LastPlaces, ThereIsNoOtherRank) {
  LastPlaces places(1);
  EXPECT_THROW(places.take(at(1, 0, "forward"), 0), std::out_of_range);
  EXPECT_THROW(places.death(-1, 0), std::out_of_range);
}

}  // namespace
}  // namespace shardproof
