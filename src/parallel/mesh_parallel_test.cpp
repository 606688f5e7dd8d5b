// ctest: invariant timeout=120
// The plan and its seams below the trainer: losses of one step with the model, the state that each
// rank alone holds, the norm, what loading spreads. (Trajectories: harness/layouts_test.cpp.)
#include "parallel/mesh_parallel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>

#include "parallel/legality.h"
#include "parallel/make_plan.h"
#include "parallel/plan_testing.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int micro_batches = 6;
constexpr const char* layouts[] = {"dp1",
                                   "dp3",
                                   "dp3.zero1",
                                   "tp3",
                                   "tp2.sp",
                                   "cp2-zigzag",
                                   "cp3-ulysses",
                                   "dp2.cp3.zero1",
                                   "tp3.cp2.zero1",
                                   "dp4.zero1-shard2",
                                   "dp2.tp2.sp.cp2.zero1",
                                   "dp3.zero2",
                                   "dp2.tp3.zero3",
                                   "dp2.cp3.zero3",
                                   "dp6.zero3-shard2",
                                   "dp1.zero3",
                                   "dp6.zero2-shard3",
                                   "dp2.tp2.sp.cp2.zero3"};

GptShape tiny() {
  GptShape shape;
  shape.layers = 1;
  shape.width = 16;
  shape.heads = 4;
  shape.vocabulary = 250;  // pieces of almost a block
  shape.sequence = 8;
  shape.tensor_pieces = 4;
  shape.sequence_pieces = 4;
  shape.dropout = 0.1;
  return shape;
}

PlanOptions options() {
  PlanOptions options;
  options.shape = tiny();
  options.micro_batches = micro_batches;
  options.seed = 7;
  return options;
}

template <typename Body>
void with_plans(const std::string& text, const Body& body, const PlanOptions& of = options()) {
  const Layout layout = parse_layout(text);
  ASSERT_EQ(problem(layout, of.shape, micro_batches), "");
  on_thread_ranks(layout.world(), [&](Communicator& comm) {
    at::set_num_threads(1);
    Mesh mesh(comm, layout);
    const auto plan = make_mesh_parallel(mesh, of);
    body(mesh, *plan);
  });
}

// Every element that `shards` shows, by kind and place.
using State = std::map<std::pair<std::string, std::int64_t>, std::uint32_t>;

void collect(Plan& plan, State& state) {
  for (const char* kind : {"param", "grad", "master", "exp_avg", "exp_avg_sq"}) {
    for (const StateShard& shard : plan.shards(kind, false)) {
      EXPECT_EQ(shard.range.lo % block_elements, 0);
      const std::int64_t first = plan.table().range(shard.piece_index).lo + shard.range.lo;
      for (std::int64_t i = 0; i < shard.range.size(); ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(static_cast<float*>(shard.data)[i]);
        const bool fresh = state.emplace(std::pair(kind, first + i), bits).second;
        ASSERT_TRUE(fresh) << kind << " element " << first + i << " on two ranks";
      }
    }
  }
}

struct Outcome {
  State state;
  std::uint64_t loss = 0, norm = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome play(const std::string& layout) {
  Outcome outcome;
  std::mutex mutex;
  with_plans(layout, [&](Mesh& mesh, Plan& plan) {
    const StepTotals totals = play_step(plan, tiny(), {.memory_bytes = 100});
    EXPECT_EQ(totals.memory_max, 100);
    const std::lock_guard lock(mutex);
    collect(plan, outcome.state);
    const auto loss = std::bit_cast<std::uint64_t>(totals.loss_sum);
    const auto norm = std::bit_cast<std::uint64_t>(totals.grad_norm);
    if (outcome.loss == 0) outcome.loss = loss, outcome.norm = norm;
    EXPECT_EQ(outcome.loss, loss) << "world rank " << mesh.world().rank();
    EXPECT_EQ(outcome.norm, norm) << "world rank " << mesh.world().rank();
  });
  return outcome;
}

TEST(MeshParallel, EachElementIsOnOneRankWithTheBitsOfALoneRank) {
  const Outcome reference = play("dp1");
  EXPECT_EQ(static_cast<std::int64_t>(reference.state.size()),
            5 * PieceTable(gpt_pieces(tiny())).elements());
  for (const char* layout : layouts) EXPECT_TRUE(play(layout) == reference) << layout;
}

TEST(MeshParallel, OptimizerBytesAreTheExactShareWithinOneBlockOfEachUnit) {
  for (const char* text : layouts) {
    SCOPED_TRACE(text);
    const Layout layout = parse_layout(text);
    std::mutex mutex;
    std::map<int, std::int64_t> held, of_pieces;  // by tensor rank
    with_plans(text, [&](Mesh& mesh, Plan& plan) {
      const PlanBytes bytes = plan.bytes();
      EXPECT_EQ(bytes.units, layout.zero >= 2 ? 3 : 1);
      EXPECT_LT(std::abs(bytes.optimizer - bytes.optimizer_exact),
                12 * block_elements * bytes.units);
      std::int64_t elements = 0;
      for (const StateShard& shard : plan.shards("param", true)) elements += shard.range.size();
      EXPECT_EQ(bytes.parameters, 4 * elements);
      const std::lock_guard lock(mutex);
      held[mesh.at().tp] += bytes.optimizer;
      if (layout.zero == 3) {
        EXPECT_EQ(12 * elements, bytes.optimizer);
        of_pieces[mesh.at().tp] += 12 * elements;
      } else {
        of_pieces[mesh.at().tp] = 12 * elements;
      }
    });
    const int copies = layout.dp / layout.shard_size();
    for (const auto& [tp, bytes] : held) {
      const int times = layout.zero == 0 ? layout.dp * layout.cp : layout.zero == 3 ? 1 : copies;
      EXPECT_EQ(bytes, of_pieces[tp] * times);
    }
  }
}

// Each rank fills what is its alone; after loaded() every rank has everything it holds.
void expect_loaded(const std::string& text, const PlanOptions& of) {
  SCOPED_TRACE(text);
  const auto fill_and_look = [](Mesh&, Plan& plan) {
    const auto value = [&](const StateShard& shard, std::int64_t i) {
      return -static_cast<float>(plan.table().range(shard.piece_index).lo + shard.range.lo + i);
    };
    const char* kinds[] = {"param", "master", "exp_avg", "exp_avg_sq"};
    for (const char* kind : kinds) {
      for (const StateShard& shard : plan.shards(kind, true)) {
        std::memset(shard.data, 0xff, static_cast<std::size_t>(shard.range.size()) * 4);
      }
      for (const StateShard& shard : plan.shards(kind, false)) {
        for (std::int64_t i = 0; i < shard.range.size(); ++i) {
          static_cast<float*>(shard.data)[i] = value(shard, i);
        }
      }
    }
    plan.loaded();
    for (const char* kind : kinds) {
      for (const StateShard& shard : plan.shards(kind, true)) {
        for (std::int64_t i = 0; i < shard.range.size(); ++i) {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(static_cast<float*>(shard.data)[i]),
                    std::bit_cast<std::uint32_t>(value(shard, i)))
              << kind;
        }
      }
    }
  };
  with_plans(text, fill_and_look, of);
}

TEST(MeshParallel, LoadedStateReachesEveryCopy) {
  for (const char* text : layouts) expect_loaded(text, options());
}

// One rank's share is the whole unit, others have none: all of them take part all the same.
TEST(MeshParallel, LoadedStateReachesEveryCopyOfAUnitOfOneBlock) {
  PlanOptions of = options();
  of.shape.vocabulary = 8;
  of.shape.tied = true;
  for (const char* text : {"dp2.tp4.zero1", "dp3.tp4.zero2", "dp2.tp4", "dp2.tp4.zero3"}) {
    expect_loaded(text, of);
  }
}

TEST(MakePlanDeathTest, RefusesWhatIsNotLegal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(on_thread_ranks(2,
                               [&](Communicator& comm) {
                                 Mesh mesh(comm, parse_layout("ep2"));
                                 make_plan(mesh, options());
                               }),
               "expert parallelism");
}

}  // namespace
}  // namespace shardproof
