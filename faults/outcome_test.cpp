// ctest: unit timeout=30
#include "faults/outcome.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(FaultOutcome, EveryKindHasARowWithAnOutcomeAndAReason) {
  ASSERT_EQ(allowed_outcomes().size(), fault_kinds().size());
  for (const KindInfo& of : fault_kinds()) {
    const Allowed& row = allowed_outcomes()[static_cast<std::size_t>(of.kind)];
    EXPECT_EQ(row.kind, of.kind) << of.name;
    EXPECT_TRUE(row.survived_equal || row.detected || row.refused) << of.name;
    EXPECT_FALSE(row.because.empty()) << of.name;
  }
}

TEST(FaultOutcome, NothingMayBeSilentHangOrNotFire) {
  for (const KindInfo& of : fault_kinds()) {
    for (const FaultOutcome never :
         {FaultOutcome::silent, FaultOutcome::hung, FaultOutcome::not_fired}) {
      EXPECT_FALSE(is_allowed(of.kind, never)) << of.name;
    }
  }
}

TEST(FaultOutcome, TheDeadAreNotSurvived) {
  EXPECT_FALSE(is_allowed(FaultKind::kill, FaultOutcome::survived_equal));
  EXPECT_FALSE(is_allowed(FaultKind::dtype, FaultOutcome::survived_equal));
  EXPECT_FALSE(is_allowed(FaultKind::delay, FaultOutcome::detected));
  EXPECT_FALSE(is_allowed(FaultKind::missing_shard, FaultOutcome::survived_equal));
}

}  // namespace
}  // namespace shardproof
