// ctest: invariant timeout=120
// Native data parallelism below the trainer: sums that are exact in any order come out exact, on
// every rank; one layout run twice gives the same bits; buckets travel while the backward goes on;
// a gradient that never came is named.
#include "parallel/native_data_parallel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "base/expect_error.h"
#include "parallel/plan_testing.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int micro_batches = 4;

GptShape tiny() {
  GptShape shape;
  shape.width = 16;
  shape.heads = 2;
  shape.vocabulary = 50;
  shape.sequence = 8;
  shape.tensor_pieces = 1;
  shape.sequence_pieces = 1;
  shape.dropout = 0.1;
  return shape;
}

NativeOptions options_of(bool overlap) {
  NativeOptions options;
  options.shape = tiny();
  options.micro_batches = micro_batches;
  options.seed = 7;
  options.bucket_bytes = 4096;  // many buckets
  options.overlap = overlap;
  return options;
}

using State = std::map<std::pair<std::string, std::int64_t>, std::uint32_t>;

// What world rank 0 holds, after checking that every rank holds the same.
State play(int ranks, const NativeOptions& options) {
  std::map<int, State> states;
  std::mutex mutex;
  on_thread_ranks(ranks, [&](Communicator& comm) {
    Mesh mesh(comm, Layout{.dp = ranks});
    const auto plan = make_native_data_parallel(mesh, options);
    play_step(*plan, tiny());
    State state;
    for (const char* kind : {"param", "grad", "master", "exp_avg", "exp_avg_sq"}) {
      for (const StateShard& shard : plan->shards(kind, true)) {
        const std::int64_t first = plan->table().range(shard.piece_index).lo + shard.range.lo;
        for (std::int64_t i = 0; i < shard.range.size(); ++i) {
          state[{kind, first + i}] =
              std::bit_cast<std::uint32_t>(static_cast<float*>(shard.data)[i]);
        }
      }
    }
    const std::lock_guard lock(mutex);
    states[comm.rank()] = std::move(state);
  });
  for (const auto& [rank, state] : states) EXPECT_TRUE(state == states.at(0)) << "rank " << rank;
  EXPECT_EQ(static_cast<std::int64_t>(states.at(0).size()),
            5 * PieceTable(gpt_pieces(tiny())).elements());
  return states.at(0);
}

TEST(NativeDataParallel, OneLayoutTwiceGivesTheSameBits) {
  for (const int ranks : {1, 2, 3, 6}) {  // uneven shares, and ranks without a micro-batch
    const State first = play(ranks, options_of(true));
    EXPECT_TRUE(play(ranks, options_of(true)) == first) << ranks;
    EXPECT_TRUE(play(ranks, options_of(false)) == first) << ranks << ", without overlap";
  }
}

// Small integers: a lost or doubled factor of the number of ranks would show in every element.
TEST(NativeDataParallel, ExactSumsComeOutExact) {
  for (const int ranks : {2, 3, 4}) {
    for (const bool overlap : {true, false}) {
      on_thread_ranks(ranks, [&](Communicator& comm) {
        NativeOptions options = options_of(overlap);
        options.before_reduce = [&](std::span<float> bucket) {
          for (std::size_t i = 0; i < bucket.size(); ++i) {
            bucket[i] = static_cast<float>((comm.rank() + 1) * static_cast<int>(i % 7 + 1)) / 64;
          }
        };
        Mesh mesh(comm, Layout{.dp = ranks});
        const auto plan = make_native_data_parallel(mesh, options);
        play_step(*plan, tiny());
        const float all = static_cast<float>(ranks * (ranks + 1) / 2) / 64;
        std::map<float, int> seen;
        for (const StateShard& shard : plan->shards("grad", true)) {
          for (std::int64_t i = 0; i < shard.range.size(); ++i) {
            const float times = static_cast<float*>(shard.data)[i] / all;
            ASSERT_EQ(times, std::round(times));
            ++seen[times];
          }
        }
        EXPECT_EQ(seen.begin()->first, 1);
        EXPECT_EQ(seen.rbegin()->first, 7);
        EXPECT_EQ(seen.size(), 7U);
      });
    }
  }
}

TEST(NativeDataParallel, AParameterWithoutAGradientIsNamedAndNothingIsUpdated) {
  on_thread_ranks(2, [&](Communicator& comm) {
    Mesh mesh(comm, Layout{.dp = 2});
    const auto plan = make_native_data_parallel(mesh, options_of(true));
    if (comm.rank() == 1) {
      expect_error(ErrorKind::mismatch, {"no gradient arrived for", "head.weight"},
                   [&] { play_step(*plan, tiny(), {.without_backward = micro_batches - 1}); });
    } else {
      EXPECT_THROW(play_step(*plan, tiny(), {.without_backward = micro_batches - 1}), Error);
    }
    comm.revoke();
  });
}

TEST(NativeDataParallel, BucketsLeaveInTheLastBackwardAlone) {
  on_thread_ranks(2, [&](Communicator& comm) {
    Mesh mesh(comm, Layout{.dp = 2});
    int launched = 0;
    NativeOptions options = options_of(true);
    options.before_reduce = [&](std::span<float>) { ++launched; };
    const auto plan = make_native_data_parallel(mesh, options);
    plan->begin_step(0);
    Gpt model(tiny(), plan->table(), plan->seams(0));
    std::vector<LossLeaf> losses;
    for (const int m : plan->micro_batches()) {
      EXPECT_EQ(launched, 0) << "before micro-batch " << m;
      const auto leaves = model.forward(testing::random_batch(tiny(), m, 2, 5, 4));
      losses.insert(losses.end(), leaves.begin(), leaves.end());
      model.backward(m, 0.125);
      plan->end_micro_batch(m, 0);
    }
    EXPECT_EQ(launched, plan->bytes().units);
    EXPECT_GT(launched, 4);
    plan->reduce({losses, 0, false});
  });
}

}  // namespace
}  // namespace shardproof
