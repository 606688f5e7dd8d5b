// ctest: invariant timeout=120 processors=2
// Stages of a model on thread ranks that pass activations and gradients through StageLink, in the
// order of their schedules: every leaf gradient and every loss has the bits of a lone rank. (What
// becomes of the gradients is the plan's: see mesh_parallel_test.cpp.)
#include "parallel/stage_link.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <map>
#include <mutex>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/expect_error.h"
#include "model/gpt_testing.h"
#include "parallel/mesh_seams.h"
#include "parallel/pipeline_rules.h"
#include "parallel/seam_cost.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::uint64_t seed = 7;
constexpr int rows = 2;

GptShape eight_layers() {
  GptShape shape;
  shape.layers = 8;
  shape.width = 16;
  shape.heads = 2;
  shape.vocabulary = 32;
  shape.sequence = 8;
  shape.dropout = 0.1;
  shape.tied = true;  // the first and the last stage use one parameter
  shape.label_smoothing = 0.1;
  return shape;
}

std::vector<MicroBatch> batches_of(int micro_batches) {
  std::vector<MicroBatch> batches;
  for (int m = 0; m < micro_batches; ++m) {
    batches.push_back(random_batch(eight_layers(), m, rows, seed, 4));
  }
  return batches;
}

// What all ranks together have made. Ranks that make the same leaf must agree on its bits.
class Union {
 public:
  LoneSeams::Sink sink() {
    return [this](int piece, int sequence, at::Tensor leaf, const Site& site) {
      const std::lock_guard lock(mutex_);
      const auto [found, fresh] =
          leaves_.emplace(std::tuple(piece, site.micro_batch, sequence, site.use), leaf);
      EXPECT_TRUE(fresh || same_bits(found->second, leaf)) << "piece " << piece;
    };
  }
  void add(const std::vector<LossLeaf>& losses) {
    const std::lock_guard lock(mutex_);
    for (const LossLeaf& loss : losses) {
      const auto bits = std::bit_cast<std::uint64_t>(loss.sum);
      EXPECT_EQ(
          losses_.emplace(std::pair(loss.micro_batch, loss.sequence_piece), bits).first->second,
          bits);
    }
  }
  void expect_same(const Union& other) const {
    EXPECT_EQ(losses_, other.losses_);
    ASSERT_EQ(leaves_.size(), other.leaves_.size());
    for (const auto& [key, leaf] : leaves_) {
      const auto& [piece, micro_batch, sequence, use] = key;
      ASSERT_TRUE(other.leaves_.contains(key)) << "piece " << piece;
      EXPECT_TRUE(same_bits(leaf, other.leaves_.at(key)))
          << "piece " << piece << ", micro-batch " << micro_batch << ", sequence " << sequence
          << ", use " << use;
    }
  }

 private:
  std::mutex mutex_;
  Leaves leaves_;
  std::map<std::pair<int, int>, std::uint64_t> losses_;
};

// Parameters that another stage holds are undefined: touching one would crash.
std::vector<at::Tensor> parameters_of(const PieceTable& table, const LayerRange& layers) {
  auto parameters = initial_parameters(eight_layers(), table, seed);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!holds(layers, eight_layers(), table.pieces()[i].name)) parameters[i].reset();
  }
  return parameters;
}

void run(const Schedule& schedule, const std::vector<MicroBatch>& batches,
         const std::vector<std::unique_ptr<Gpt>>& chunks, Union& all) {
  constexpr double scale = 0.125;
  for (const Action& action : schedule) {
    Gpt& model = *chunks.at(static_cast<std::size_t>(action.chunk));
    const int m = action.micro_batch;
    switch (action.kind) {
      case ActionKind::forward:
        all.add(model.forward(batches.at(static_cast<std::size_t>(m))));
        break;
      case ActionKind::backward:
        model.backward(m, scale);
        break;
      case ActionKind::backward_input:
        model.backward_input(m, scale);
        break;
      case ActionKind::backward_weight:
        model.backward_weight(m);
        break;
    }
  }
}

// What the stages of one rank send in a step, from shapes.
std::uint64_t predicted_bytes_sent(const Layout& layout, int world_rank, const Schedule& schedule,
                                   const std::vector<LayerRange>& chunks) {
  std::uint64_t bytes = 0;
  for (const Action& action : schedule) {
    if (action.kind == ActionKind::backward_weight) continue;
    const auto predicted =
        action.kind == ActionKind::forward ? predicted_forward : predicted_backward;
    const LayerRange& layers = chunks[static_cast<std::size_t>(action.chunk)];
    for (const PredictedCall& call :
         predicted(layout, eight_layers(), layers, rows, world_rank, CommBackend::threads)
             .pipeline) {
      bytes += call.bytes;
    }
  }
  return bytes;
}

void play(Communicator& comm, const Layout& layout, int micro_batches,
          const std::vector<int>& sizes, Union& all) {
  const GptShape shape = eight_layers();
  const PieceTable table(gpt_pieces(shape));
  Mesh mesh(comm, layout);
  StageLink link(mesh.axis(Axis::pipeline), chunks_of(layout), shape.sequence_pieces);
  std::vector<std::unique_ptr<MeshSeams>> seams;
  std::vector<std::unique_ptr<Gpt>> chunks;
  const auto ranges = chunk_layers(layout, mesh.at().pp, shape.layers, sizes);
  for (const LayerRange& layers : ranges) {
    const StageChunk stage{&link, static_cast<int>(chunks.size()), layers};
    const auto source = [values = parameters_of(table, layers)](int piece_index, const Site&) {
      return values.at(static_cast<std::size_t>(piece_index));
    };
    seams.push_back(std::make_unique<MeshSeams>(mesh, shape, source, all.sink(), seed, stage));
    chunks.push_back(std::make_unique<Gpt>(shape, table, *seams.back()));
  }
  const auto mine = owned_micro_batches(layout, micro_batches, mesh.at().dp);
  const Schedule schedule = stage_schedule(layout, mesh.at().pp, mine);
  run(schedule, batches_of(micro_batches), chunks, all);
  link.finish();
  EXPECT_EQ(mine.empty(), link.waited().count() == 0);
  EXPECT_EQ(link.bytes_sent(), predicted_bytes_sent(layout, comm.rank(), schedule, ranges));
}

void expect_bits_of_a_lone_rank(const std::string& text, int micro_batches,
                                const std::vector<int>& sizes = {}) {
  SCOPED_TRACE(text);
  const GptShape shape = eight_layers();
  const PieceTable table(gpt_pieces(shape));
  Union lone;
  LoneSeams seams(shape, initial_parameters(shape, table, seed), lone.sink(), seed);
  std::vector<std::unique_ptr<Gpt>> model;
  model.push_back(std::make_unique<Gpt>(shape, table, seams));
  Schedule schedule;
  for (int m = 0; m < micro_batches; ++m) {
    schedule.push_back({ActionKind::forward, m, 0});
    schedule.push_back({ActionKind::backward, m, 0});
  }
  run(schedule, batches_of(micro_batches), model, lone);

  const Layout layout = parse_layout(text);
  ASSERT_EQ(pipeline_problem(layout, shape, micro_batches, sizes), "");
  Union all;
  on_thread_ranks(layout.world(),
                  [&](Communicator& comm) { play(comm, layout, micro_batches, sizes, all); });
  all.expect_same(lone);
}

TEST(StageLink, TwoStagesHaveTheBitsOfALoneRankUnderEverySchedule) {
  for (const char* text : {"pp2-gpipe", "pp2-1f1b", "pp2-zb"}) expect_bits_of_a_lone_rank(text, 5);
  expect_bits_of_a_lone_rank("pp2-int2", 4);
  expect_bits_of_a_lone_rank("pp2-int4", 2);
}

TEST(StageLink, ThreeAndFourStagesDivideUnevenly) {
  for (const char* text : {"pp3-gpipe", "pp3-1f1b", "pp4-zb"}) expect_bits_of_a_lone_rank(text, 5);
  expect_bits_of_a_lone_rank("pp4-int2", 8);
  expect_bits_of_a_lone_rank("pp4-1f1b", 2);  // fewer micro-batches than stages
}

TEST(StageLink, StageSizesMayBeGiven) {
  expect_bits_of_a_lone_rank("pp2-1f1b", 3, {3, 5});
  expect_bits_of_a_lone_rank("pp2-int2", 2, {1, 4, 1, 2});
}

TEST(StageLink, StagesOfEveryOtherAxis) {
  for (const char* text : {"dp2.pp2-1f1b", "tp2.sp.pp2-zb", "cp2.pp2-gpipe", "dp6.pp2-zb"}) {
    expect_bits_of_a_lone_rank(text, 5);  // dp6: ranks without a micro-batch
  }
  expect_bits_of_a_lone_rank("tp2.cp2.pp2-int2", 2);
}

Site at(int micro_batch, Pass pass) {
  return {"stage", -1, micro_batch, 0, pass};
}

TEST(StageLink, MessagesMeetByWhatTheyCarry) {
  on_thread_ranks(2, [](Communicator& comm) {
    StageLink link(comm, 2, 1);
    const auto value = [](float x) { return at::full({3}, x, at::kFloat); };
    if (comm.rank() == 0) {
      link.send(value(1), 0, at(0, Pass::forward));   // boundary 0
      link.send(value(2), 1, at(0, Pass::forward));   // boundary 2
      link.send(value(3), 1, at(0, Pass::backward));  // boundary 1
      link.send(value(4), 0, at(1, Pass::forward));
    } else {
      const auto first = [&](int chunk, int m, Pass pass) {
        return link.receive({3}, chunk, at(m, pass)).const_data_ptr<float>()[0];
      };
      EXPECT_EQ(first(0, 1, Pass::forward), 4);  // in any order
      EXPECT_EQ(first(0, 0, Pass::backward), 3);
      EXPECT_EQ(first(1, 0, Pass::forward), 2);
      EXPECT_EQ(first(0, 0, Pass::forward), 1);
    }
    link.finish();
  });
}

TEST(StageLink, AReceiveWithoutASendEndsAtTheDeadline) {
  ThreadWorld world(2, std::chrono::milliseconds(50));
  const auto comm = world.communicator(1);
  StageLink link(*comm, 1, 1);
  expect_error(ErrorKind::timeout, {}, [&] { link.receive({3}, 0, at(0, Pass::forward)); });
}

// A step that failed leaves sends that nobody will receive: the link must not wait for them.
TEST(StageLink, AFailedStepDoesNotWaitForItsSends) {
  ThreadWorld world(2, std::chrono::hours(1));
  const auto comm = world.communicator(0);
  {
    StageLink link(*comm, 1, 1);
    link.send(at::zeros({3}, at::kFloat), 0, at(0, Pass::forward));
  }
  EXPECT_TRUE(comm->poisoned());
}

TEST(StageLinkDeathTest, TheEndsOfThePipelineHaveNoNeighbour) {
  ThreadWorld world(2, std::chrono::seconds(1));
  const auto comm = world.communicator(0);
  StageLink link(*comm, 1, 1);
  EXPECT_DEATH(link.receive({3}, 0, at(0, Pass::forward)), "no stage -1 of 2");
  EXPECT_DEATH(link.send(at::zeros({3}, at::kDouble), 0, at(0, Pass::forward)), "fp32 travels");
}

}  // namespace
}  // namespace shardproof
