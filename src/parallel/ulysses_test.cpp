// ctest: unit
// The trade alone: what arrives where, what it costs, that the gather undoes the scatter. (Bits of
// whole steps: mesh_parallel_test.cpp, harness/layouts_test.cpp.)
#include "parallel/ulysses.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "parallel/mesh_pieces.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr std::int64_t part_elements = 2 * 3 * 5;

// A part that says which list, sequence piece and tensor piece it is of.
at::Tensor part(int list, int s, int v) {
  return at::full({2, 3, 1, 5}, 10000 * list + 100 * s + v, at::kFloat);
}

std::vector<Parts> parts_of(int lists, const std::vector<int>& sequence,
                            const std::vector<int>& tensor) {
  std::vector<Parts> all(static_cast<std::size_t>(lists));
  for (int n = 0; n < lists; ++n) {
    for (const int s : sequence) {
      auto& row = all[static_cast<std::size_t>(n)].emplace_back();
      for (const int v : tensor) row.push_back(part(n, s, v));
    }
  }
  return all;
}

void expect_same(const std::vector<Parts>& seen, const std::vector<Parts>& expected) {
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t n = 0; n < seen.size(); ++n) {
    ASSERT_EQ(seen[n].size(), expected[n].size());
    for (std::size_t s = 0; s < seen[n].size(); ++s) {
      ASSERT_EQ(seen[n][s].size(), expected[n][s].size());
      for (std::size_t v = 0; v < seen[n][s].size(); ++v) {
        EXPECT_TRUE(seen[n][s][v].is_contiguous());
        EXPECT_TRUE(seen[n][s][v].equal(expected[n][s][v])) << n << " " << s << " " << v;
      }
    }
  }
}

struct Case {
  const char* layout;  // of one tensor rank of tp
  int tensor_pieces;
  int sequence_pieces;
  int tensor_rank;
};

constexpr Case cases[] = {{"cp2-ulysses", 2, 2, 0},
                          {"cp2-ulysses", 3, 5, 0},  // shares 1, 2 of V and 2, 3 of S
                          {"cp4-ulysses", 4, 8, 0},
                          {"tp2.cp2-ulysses", 8, 4, 1},
                          {"cp3-ulysses", 4, 7, 0}};

template <typename Body>
void with_groups(const Case& each, const Body& body) {
  const Layout layout = parse_layout(each.layout);
  const auto sequence = sequence_owners(layout, each.sequence_pieces).owned;
  const auto tensor = attention_tensor_pieces(layout, each.tensor_pieces, each.tensor_rank);
  const auto owned =
      tensor_owners(layout, each.tensor_pieces).owned[static_cast<std::size_t>(each.tensor_rank)];
  on_thread_ranks(layout.cp, [&](Communicator& comm) {
    Ulysses ulysses(comm, sequence, tensor);
    body(comm, ulysses, sequence[static_cast<std::size_t>(comm.rank())], owned);
  });
}

TEST(Ulysses, TradesSequencePiecesForHeadsAndBack) {
  for (const Case& each : cases) {
    SCOPED_TRACE(each.layout);
    with_groups(each, [&](Communicator&, Ulysses& ulysses, const std::vector<int>& sequence,
                          const std::vector<int>& tensor) {
      const AttentionPieces& mine = ulysses.pieces();
      EXPECT_EQ(mine.sequence.size(), static_cast<std::size_t>(each.sequence_pieces));
      for (const int lists : {1, 3}) {
        auto traded = ulysses.scatter(parts_of(lists, sequence, tensor));
        expect_same(traded, parts_of(lists, mine.sequence, mine.tensor));
        expect_same(ulysses.gather(std::move(traded)), parts_of(lists, sequence, tensor));
      }
    });
  }
}

// Of the B bytes of a list of parts a rank keeps what it owns on both sides: B / k where shares are
// equal. The other way it sends what it now holds of other ranks' sequence pieces.
TEST(Ulysses, SendsEachPartOnce) {
  for (const Case& each : cases) {
    SCOPED_TRACE(each.layout);
    with_groups(each, [&](Communicator& comm, Ulysses& ulysses, const std::vector<int>& sequence,
                          const std::vector<int>& tensor) {
      const std::size_t of_part = 3 * part_elements * sizeof(float);  // three lists
      const std::size_t own = sequence.size() * ulysses.pieces().tensor.size();
      const std::size_t before = comm.traffic().bytes_sent;
      auto traded = ulysses.scatter(parts_of(3, sequence, tensor));
      const std::size_t between = comm.traffic().bytes_sent;
      EXPECT_EQ(between - before, of_part * (sequence.size() * tensor.size() - own));
      const auto total = static_cast<std::size_t>(each.sequence_pieces);
      const std::size_t held = total * ulysses.pieces().tensor.size();
      ulysses.gather(std::move(traded));
      EXPECT_EQ(comm.traffic().bytes_sent - between, of_part * (held - own));
      const auto k = static_cast<std::size_t>(comm.size());
      if (total % k == 0 && tensor.size() % k == 0) {
        const std::size_t bytes = of_part * sequence.size() * tensor.size();
        EXPECT_EQ(between - before, bytes * (k - 1) / k);
        EXPECT_EQ(comm.traffic().bytes_sent - between, bytes * (k - 1) / k);
      }
    });
  }
}

TEST(UlyssesDeathTest, EveryRankNeedsHeads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(on_thread_ranks(2,
                               [&](Communicator& comm) {
                                 Ulysses(comm, {{0}, {1}}, {{0}, {}});
                               }),
               "a context rank without pieces");
}

}  // namespace
}  // namespace shardproof
