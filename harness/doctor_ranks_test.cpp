// ctest: unit timeout=30
#include "harness/doctor_ranks.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(DoctorRanks, SoundRanksPass) {
  for (const int ranks : {1, 3}) {
    const Finding finding = ranks_finding(ranks);
    EXPECT_TRUE(finding.ok) << finding.detail;
  }
}

TEST(DoctorRanks, AWrongProductOrSumNamesItsRankAlone) {
  RankSpoiler spoiler;
  spoiler.product = [](int rank, std::span<float> values) {
    if (rank == 2) values[700] += 1;
  };
  const Finding product = ranks_finding(4, spoiler);
  EXPECT_FALSE(product.ok);
  EXPECT_TRUE(product.detail.starts_with("rank 2: its product has digest ")) << product.detail;
  EXPECT_EQ(product.detail.find("; rank"), std::string::npos) << product.detail;
  spoiler = {};
  spoiler.sums = [](int rank, std::span<std::int64_t> values) {
    if (rank == 1) values[999] ^= 1;
  };
  const Finding sums = ranks_finding(3, spoiler);
  EXPECT_FALSE(sums.ok);
  EXPECT_TRUE(sums.detail.starts_with("rank 1: its sum 999 ")) << sums.detail;
}

}  // namespace
}  // namespace shardproof
