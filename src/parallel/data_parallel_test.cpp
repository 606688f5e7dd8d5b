// ctest: invariant timeout=120
#include "parallel/mesh_parallel.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/digest.h"
#include "base/philox.h"
#include "comm/cost.h"
#include "comm/stack.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

GptShape tiny() {
  GptShape shape;
  shape.layers = 1;
  shape.width = 16;
  shape.heads = 2;
  shape.vocabulary = 96;  // a piece of more than one block
  shape.sequence = 8;
  return shape;
}

Layout layout_of(int ranks, int zero) {
  Layout layout;
  layout.dp = ranks;
  layout.zero = zero;
  return layout;
}

// One rank's plan, for a body that plays the model: it hands in gradients itself.
template <typename Body>
void with_plans(int ranks, int zero, int micro_batches, const Body& body) {
  on_thread_ranks(ranks, [&](Communicator& comm) {
    Mesh mesh(comm, layout_of(ranks, zero));
    PlanOptions options;
    options.shape = tiny();
    options.micro_batches = micro_batches;
    options.seed = 7;
    const auto plan = make_mesh_parallel(mesh, options);
    body(comm, *plan);
  });
}

// A gradient that is a function of its leaf and element alone.
at::Tensor leaf_of(const PieceTable& table, int piece, int m, int s, std::int64_t step) {
  const ElementRange range = table.range(piece);
  at::Tensor out = at::empty({range.size()}, at::kFloat);
  const Random random(3, Purpose::test, static_cast<std::uint32_t>(m * 100 + s),
                      static_cast<std::uint32_t>(step));
  for (std::int64_t i = 0; i < range.size(); ++i) {
    out.data_ptr<float>()[i] = random.normal(static_cast<std::uint64_t>(range.lo + i));
  }
  return out;
}

struct StepDone {
  StepTotals totals;
  std::int64_t tokens = 0;
};

// A whole step with made-up gradients and losses.
StepDone play_step(Plan& plan, std::int64_t step) {
  plan.begin_step(step);
  StepDone done;
  done.tokens = plan.sum_tokens(10 * static_cast<std::int64_t>(plan.micro_batches().size()));
  std::vector<LossLeaf> losses;
  const int pieces = tiny().sequence_pieces;
  for (const int m : plan.micro_batches()) {
    for (int p = 0; p < static_cast<int>(plan.table().pieces().size()); ++p) {
      for (int s = 0; s < pieces; ++s) {
        plan.seams(0).gradient(p, s, leaf_of(plan.table(), p, m, s, step), {});
      }
    }
    plan.end_micro_batch(m, 0);
    for (int s = 0; s < pieces; ++s) losses.push_back({m, s, 1.0 / (3 + m * pieces + s), 5});
  }
  done.totals = plan.reduce({losses, 100, false});
  plan.update({}, {1e-2, 0.5, step}, {"*.bias"});
  plan.gather_parameters();
  return done;
}

const std::vector<std::string> kinds{"param", "grad", "master", "exp_avg", "exp_avg_sq"};

// The whole state, put together from what each rank alone holds; SHA-256 by kind.
class Gathered {
 public:
  explicit Gathered(const PieceTable& table) {
    for (const auto& kind : kinds) {
      state_[kind].assign(static_cast<std::size_t>(table.elements()), std::nanf(""));
      seen_[kind].assign(state_[kind].size(), 0);
    }
  }
  void add(Plan& plan) {
    const std::lock_guard lock(mutex_);
    for (const auto& kind : kinds) {
      for (const StateShard& shard : plan.shards(kind, false)) {
        const std::int64_t at = plan.table().range(shard.piece_index).lo + shard.range.lo;
        EXPECT_EQ(shard.range.lo % block_elements, 0);
        std::memcpy(state_[kind].data() + at, shard.data,
                    static_cast<std::size_t>(shard.range.size()) * sizeof(float));
        for (std::int64_t i = 0; i < shard.range.size(); ++i) {
          ++seen_[kind][static_cast<std::size_t>(at + i)];
        }
      }
    }
  }
  // Every element on exactly one rank.
  void expect_tiled() const {
    for (const auto& [kind, seen] : seen_) {
      for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], 1) << kind << " " << i;
    }
  }
  std::string digest() const {
    Sha256 hash;
    for (const auto& [kind, values] : state_) {
      hash.update(kind).update(values.data(), values.size() * sizeof(float));
    }
    return hash.finish().hex();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> state_;
  std::map<std::string, std::vector<int>> seen_;
};

struct Outcome {
  std::vector<std::string> digests;  // of the state after each step
  std::vector<std::uint64_t> losses, norms;
  bool operator==(const Outcome&) const = default;
};

Outcome play(int ranks, int zero, int micro_batches, int steps) {
  std::vector<std::unique_ptr<Gathered>> states;
  for (int i = 0; i < steps; ++i)
    states.push_back(std::make_unique<Gathered>(PieceTable(gpt_pieces(tiny()))));
  Outcome outcome;
  with_plans(ranks, zero, micro_batches, [&](Communicator& comm, Plan& plan) {
    for (int step = 0; step < steps; ++step) {
      const StepDone done = play_step(plan, step);
      states[static_cast<std::size_t>(step)]->add(plan);
      if (comm.rank() != 0) continue;
      outcome.losses.push_back(std::bit_cast<std::uint64_t>(done.totals.loss_sum));
      outcome.norms.push_back(std::bit_cast<std::uint64_t>(done.totals.grad_norm));
    }
  });
  for (const auto& state : states) {
    state->expect_tiled();
    outcome.digests.push_back(state->digest());
  }
  return outcome;
}

TEST(DataParallel, EveryLegalLayoutGivesTheSameBits) {
  for (const int micro_batches : {1, 5, 12}) {
    const Outcome reference = play(1, 0, micro_batches, 3);
    ASSERT_NE(reference.digests[0], reference.digests[1]);
    for (int ranks = 1; ranks <= std::min(6, micro_batches); ++ranks) {
      for (const int zero : {0, 1}) {
        EXPECT_EQ(play(ranks, zero, micro_batches, 3), reference)
            << micro_batches << " micro-batches, " << ranks << " ranks, zero " << zero;
      }
    }
  }
}

TEST(DataParallel, ARankWithoutMicroBatchesTakesPart) {
  const Outcome reference = play(1, 0, 2, 2);
  for (const int zero : {0, 1}) EXPECT_EQ(play(3, zero, 2, 2), reference) << "zero " << zero;
}

TEST(DataParallel, ReplicasAreEqualAndWhole) {
  for (const int zero : {0, 1}) {
    std::mutex mutex;
    std::set<std::string> digests;
    with_plans(3, zero, 4, [&](Communicator&, Plan& plan) {
      play_step(plan, 0);
      Sha256 hash;
      std::int64_t elements = 0;
      for (const StateShard& shard : plan.shards("param", true)) {
        elements += shard.range.size();
        hash.update(shard.data, static_cast<std::size_t>(shard.range.size()) * sizeof(float));
      }
      EXPECT_EQ(elements, plan.table().elements());
      const std::lock_guard lock(mutex);
      digests.insert(hash.finish().hex());
    });
    EXPECT_EQ(digests.size(), 1u);
  }
}

// Losses of two ranks with sums 2 and 12 over 1 and 3 tokens: 3.5, where a mean of means gives 3.
TEST(DataParallel, MeanLossIsOverAllTokensOfTheWorld) {
  with_plans(2, 1, 2, [&](Communicator& comm, Plan& plan) {
    const bool first = comm.rank() == 0;
    plan.begin_step(0);
    const std::int64_t tokens = plan.sum_tokens(first ? 1 : 3);
    for (int p = 0; p < static_cast<int>(plan.table().pieces().size()); ++p) {
      plan.seams(0).gradient(p, 0, leaf_of(plan.table(), p, comm.rank(), 0, 0), {});
    }
    plan.end_micro_batch(comm.rank(), 0);
    const std::vector<LossLeaf> losses{{comm.rank(), 0, first ? 2.0 : 12.0, 0},
                                       {comm.rank(), 1, 0.0, 0}};
    const StepTotals totals = plan.reduce({losses, 0, false});
    EXPECT_EQ(totals.loss_sum / static_cast<double>(tokens), 3.5);
  });
}

TEST(DataParallel, NormCountsEveryElementOnce) {
  for (const int zero : {0, 1}) {
    with_plans(3, zero, 3, [&](Communicator& comm, Plan& plan) {
      plan.begin_step(0);
      plan.sum_tokens(1);
      std::vector<LossLeaf> losses;
      for (int p = 0; p < static_cast<int>(plan.table().pieces().size()); ++p) {
        at::Tensor ones = at::empty({plan.table().range(p).size()}, at::kFloat);
        ones.fill_(1.0);
        plan.seams(0).gradient(p, 0, ones, {});
      }
      plan.end_micro_batch(comm.rank(), 0);
      for (int s = 0; s < 2; ++s) losses.push_back({comm.rank(), s, 0.0, 0});
      const double norm = plan.reduce({losses, 0, false}).grad_norm;
      EXPECT_EQ(norm, std::sqrt(9.0 * static_cast<double>(plan.table().elements())));
    });
  }
}

TEST(DataParallel, MemoryAndTheWishToStopReachEveryRank) {
  with_plans(3, 1, 3, [&](Communicator& comm, Plan& plan) {
    plan.begin_step(0);
    plan.sum_tokens(1);
    std::vector<LossLeaf> losses;
    for (int p = 0; p < static_cast<int>(plan.table().pieces().size()); ++p) {
      plan.seams(0).gradient(p, 0, leaf_of(plan.table(), p, comm.rank(), 0, 0), {});
    }
    plan.end_micro_batch(comm.rank(), 0);
    for (int s = 0; s < 2; ++s) losses.push_back({comm.rank(), s, 0.0, 0});
    const StepTotals totals = plan.reduce({losses, 10 + 10 * comm.rank(), comm.rank() == 1});
    EXPECT_EQ(totals.memory_max, 30);
    EXPECT_EQ(totals.memory_mean, 20);
    EXPECT_TRUE(totals.stop);
  });
}

TEST(DataParallel, OptimizerBytesAreTheExactShareWithinOneBlock) {
  for (const int ranks : {1, 2, 3, 4, 6}) {
    for (const int zero : {0, 1}) {
      std::atomic<std::int64_t> sum{0};
      with_plans(ranks, zero, 6, [&](Communicator&, Plan& plan) {
        const PlanBytes bytes = plan.bytes();
        const std::int64_t all = 12 * plan.table().elements();
        EXPECT_EQ(bytes.optimizer_exact, zero == 0 ? all : all / ranks);
        EXPECT_LT(std::abs(bytes.optimizer - bytes.optimizer_exact), 12 * block_elements);
        EXPECT_EQ(bytes.parameters, 4 * plan.table().elements());
        sum += bytes.optimizer;
      });
      EXPECT_EQ(sum.load(),
                12 * PieceTable(gpt_pieces(tiny())).elements() * (zero == 0 ? ranks : 1));
    }
  }
}

}  // namespace
}  // namespace shardproof
