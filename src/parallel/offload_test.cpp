// ctest: unit timeout=60
// Shares in host memory and in a file: what was put out is brought in and viewed, bit for bit.
#include "parallel/offload.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/piece.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

class Offload : public ::testing::TestWithParam<OffloadTo> {
 protected:
  std::unique_ptr<OffloadStore> store() {
    return make_offload_store(GetParam(), folder_.path(), 0);
  }
  TempFolder folder_;
};

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

TEST_P(Offload, AnyRangesOfAnySharesKeepTheirBits) {
  EXPECT_TRUE(rc::check("puts and gets of whole blocks", [this] {
    const auto from = store();
    struct Both {
      std::unique_ptr<OffloadedShare> share;
      std::vector<float> expected;
    };
    std::vector<Both> all;
    for (int i = 0, count = *rc::gen::inRange(1, 4); i < count; ++i) {
      const int elements = *rc::gen::inRange(0, 3500);
      all.push_back({from->make(elements), std::vector<float>(static_cast<std::size_t>(elements))});
    }
    for (int i = 0, moves = *rc::gen::inRange(1, 12); i < moves; ++i) {
      Both& at = all[*rc::gen::inRange<std::size_t>(0, all.size())];
      const auto size = static_cast<std::int64_t>(at.expected.size());
      const std::int64_t lo =
          std::min<std::int64_t>(*rc::gen::inRange(0, 4) * 1024, size / 1024 * 1024);
      const std::int64_t hi = std::min<std::int64_t>(lo + *rc::gen::inRange(1, 4) * 1024, size);
      const auto count = static_cast<std::size_t>(hi - lo);
      if (*rc::gen::arbitrary<bool>()) {
        const auto bits = *rc::gen::arbitrary<std::uint32_t>();  // any, NaNs too
        for (std::size_t k = 0; k < count; ++k) {
          const auto word = static_cast<std::uint32_t>(bits + 2654435761u * k);
          at.expected[static_cast<std::size_t>(lo) + k] = std::bit_cast<float>(word);
        }
        at.share->put_out(lo, {at.expected.data() + lo, count});
      }
      std::vector<float> found(count);
      at.share->bring_in(lo, found);
      RC_ASSERT(same_bits(found.data(), at.expected.data() + lo, count));
      if (*rc::gen::arbitrary<bool>() && size > 0) {
        RC_ASSERT(same_bits(at.share->view(), at.expected.data(), at.expected.size()));
      }
    }
  }));
}

TEST_P(Offload, WhatAViewWasGivenCountsWhenItIsKept) {
  const auto from = store();
  const auto share = from->make(1500);
  std::iota(share->view(), share->view() + 1500, 1.0f);
  share->keep_view();
  std::vector<float> found(1500);
  share->bring_in(0, found);
  EXPECT_EQ(found[1499], 1500);
  const std::vector<float> newer(1024, 9);
  EXPECT_EQ(share->view()[0], 1);
  share->put_out(0, newer);
  EXPECT_EQ(share->view()[0], 9) << "a view is of the present";
  EXPECT_EQ(share->view()[1024], 1025);
}

TEST_P(Offload, CountsBytesAndCalls) {
  const auto from = store();
  const auto share = from->make(1500);
  std::vector<float> values(1500);
  share->put_out(0, values);
  share->bring_in(1024, {values.data(), 476});
  share->bring_in(0, {values.data(), 0});
  EXPECT_EQ(share->traffic().bytes_out, 6000);
  EXPECT_EQ(share->traffic().bytes_in, 4 * 476);
  EXPECT_EQ(share->traffic().calls, 2);
  EXPECT_GE(share->traffic().time.count(), 0);
  share->view();
  share->drop_view();
  EXPECT_EQ(share->traffic().bytes_in, 4 * 476) << "a view is counted apart";
  EXPECT_EQ(share->view_traffic().bytes_in, GetParam() == OffloadTo::file ? 6000 : 0);
}

INSTANTIATE_TEST_SUITE_P(To, Offload, ::testing::Values(OffloadTo::host, OffloadTo::file),
                         [](const auto& param) {
                           return param.param == OffloadTo::host ? "Host" : "File";
                         });

TEST(OffloadDeathTest, ARangeThatCutsABlockIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto from = make_offload_store(OffloadTo::host, "", 0);
  const auto share = from->make(3000);
  std::vector<float> values(100);
  EXPECT_DEATH(share->put_out(0, values), "cuts a block");
  EXPECT_DEATH(share->put_out(2999, values), "outside");
}

}  // namespace
}  // namespace shardproof
