// ctest: invariant timeout=120
// The seams of a mesh below any plan: losses and every leaf gradient of a step have the lone rank's
// bits on tensor, sequence and context ranks (ring, zigzag and all-to-all), with dropout, packed
// documents, label smoothing and tied weights; what all-to-all context parallelism sends.
#include "parallel/mesh_seams.h"

#include <gtest/gtest.h>

#include <mutex>

#include "model/gpt_testing.h"
#include "parallel/legality.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::uint64_t seed = 5;
constexpr int micro_batches = 2;

GptShape tiny() {
  GptShape shape;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 8;  // two to a tensor piece
  shape.vocabulary = 61;
  shape.sequence = 16;
  shape.tensor_pieces = 4;
  shape.sequence_pieces = 4;
  return shape;
}

// All that changes the maths.
GptShape rich() {
  GptShape shape = tiny();
  shape.dropout = 0.1;
  shape.packed = true;
  shape.label_smoothing = 0.1;
  shape.tied = true;
  return shape;
}

std::vector<MicroBatch> batches_of(const GptShape& shape) {
  std::vector<MicroBatch> batches;
  for (int m = 0; m < micro_batches; ++m) {
    MicroBatch batch = random_batch(shape, m, 2, seed, 4);
    for (std::size_t i = 0; shape.packed && i < batch.tokens.size(); ++i) {
      batch.documents.push_back(static_cast<std::int32_t>(i) / 7);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

struct RankStep {
  std::map<std::pair<int, int>, double> losses;  // by micro-batch, sequence piece
  Leaves leaves;
};

MeshSeams::Source from(const std::vector<at::Tensor>& parameters) {
  return [&parameters](int piece_index, const Site&) {
    return parameters[static_cast<std::size_t>(piece_index)];
  };
}

void run_on(Seams& seams, const GptShape& shape, const PieceTable& table, RankStep& step) {
  Gpt gpt(shape, table, seams);
  const auto batches = batches_of(shape);
  for (const MicroBatch& batch : batches) {
    for (const LossLeaf& loss : gpt.forward(batch)) {
      step.losses[{loss.micro_batch, loss.sequence_piece}] = loss.sum;
    }
  }
  for (const MicroBatch& batch : batches) {
    gpt.backward(batch.index, 1.0 / static_cast<double>(valid_tokens(batches)));
  }
}

void expect_lone_bits(const GptShape& shape, const std::vector<const char*>& layouts) {
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  RankStep lone;
  LoneSeams seams(shape, parameters, keep_leaves(lone.leaves), seed);
  run_on(seams, shape, table, lone);
  for (const char* text : layouts) {
    SCOPED_TRACE(text);
    const Layout layout = parse_layout(text);
    ASSERT_EQ(problem(layout, tiny(), micro_batches), "");
    std::mutex mutex;
    Leaves seen;
    std::map<std::pair<int, int>, double> losses;
    on_thread_ranks(layout.world(), [&](Communicator& comm) {
      Mesh mesh(comm, layout);
      RankStep step;
      MeshSeams mine(mesh, shape, from(parameters), keep_leaves(step.leaves), seed);
      run_on(mine, shape, table, step);
      const std::lock_guard lock(mutex);
      for (const auto& [key, sum] : step.losses) {
        EXPECT_EQ(sum, lone.losses.at(key)) << "rank " << comm.rank();
        losses.emplace(key, sum);
      }
      for (const auto& [key, leaf] : step.leaves) {
        EXPECT_TRUE(same_bits(leaf, lone.leaves.at(key)))
            << "rank " << comm.rank() << ": "
            << table.pieces()[static_cast<std::size_t>(std::get<0>(key))].name << " sequence "
            << std::get<2>(key);
        seen.emplace(key, leaf);
      }
    });
    EXPECT_EQ(losses.size(), lone.losses.size());
    EXPECT_EQ(seen.size(), lone.leaves.size());
  }
}

TEST(MeshSeams, ContextRanksHaveTheLoneRanksBits) {
  for (const GptShape& shape : {tiny(), rich()}) {
    expect_lone_bits(shape,
                     {"cp2", "cp3", "cp2-zigzag", "cp2-ulysses", "cp3-ulysses", "cp4-ulysses"});
  }
}

TEST(MeshSeams, TensorAndContextRanksHaveTheLoneRanksBits) {
  for (const GptShape& shape : {tiny(), rich()}) {
    expect_lone_bits(shape, {"tp3", "tp2.sp", "tp2.cp2", "tp2.cp2-ulysses", "tp2.sp.cp2-ulysses"});
  }
}

// Eight trades a layer and micro-batch: q, k, v there, the output back, and their gradients the
// other way. Every rank holds B bytes of each and sends B (k - 1) / k.
TEST(MeshSeams, UlyssesSendsTheFormulasBytes) {
  const GptShape shape = tiny();
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  for (const char* text : {"cp2-ulysses", "cp4-ulysses", "tp2.cp2-ulysses"}) {
    SCOPED_TRACE(text);
    const Layout layout = parse_layout(text);
    on_thread_ranks(layout.world(), [&](Communicator& comm) {
      Mesh mesh(comm, layout);
      RankStep step;
      MeshSeams mine(mesh, shape, from(parameters), keep_leaves(step.leaves), seed);
      const std::uint64_t before = mesh.axis(Axis::context).traffic().bytes_sent;
      run_on(mine, shape, table, step);
      const auto ranks = static_cast<std::uint64_t>(layout.cp);
      const std::uint64_t rows = 2;
      const std::uint64_t bytes =
          sizeof(float) * rows * (16 / ranks) * (16 / static_cast<std::uint64_t>(layout.tp));
      EXPECT_EQ(mesh.axis(Axis::context).traffic().bytes_sent - before,
                2 * micro_batches * 8 * bytes * (ranks - 1) / ranks);
    });
  }
}

}  // namespace
}  // namespace shardproof
