// ctest: unit
#include "train/execute.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;
using enum ActionKind;

constexpr std::uint64_t seed = 7;
constexpr int micro_batches = 3;

// What went over the boundary between the two chunks, by pass, micro-batch and sequence piece.
using Boundary = std::map<std::tuple<Pass, int, int>, at::Tensor>;

class ChunkSeams : public LoneSeams {
 public:
  ChunkSeams(const GptShape& shape, const PieceTable& table, Sink sink, int first, int last,
             Boundary& boundary)
      : LoneSeams(shape, initial_parameters(shape, table, seed), std::move(sink), seed),
        owned_(LoneSeams::owned()),
        boundary_(boundary) {
    owned_.first_layer = first;
    owned_.last_layer = last;
  }
  const OwnedPieces& owned() const override { return owned_; }
  void stage_send(at::Tensor activation, const Site& site) override {
    boundary_[{site.pass, site.micro_batch, site.sequence}] = std::move(activation);
  }
  at::Tensor stage_receive(at::IntArrayRef, const Site& site) override {
    return boundary_.at({site.pass, site.micro_batch, site.sequence});
  }

 private:
  OwnedPieces owned_;
  Boundary& boundary_;
};

// One rank that holds both halves of a model, with a schedule of the test's choice. It writes down
// what the executor does.
class TwoChunks : public Plan {
 public:
  explicit TwoChunks(Schedule schedule)
      : table_(gpt_pieces(shape)),
        schedule_(std::move(schedule)),
        first_(shape, table_, sink(), 0, 1, boundary_),
        second_(shape, table_, sink(), 1, 2, boundary_) {}

  const PieceTable& table() const override { return table_; }
  std::vector<int> micro_batches() const override { return {0, 1, 2}; }
  int chunks() const override { return 2; }
  Seams& seams(int chunk) override { return chunk == 0 ? first_ : second_; }
  Schedule schedule() const override { return schedule_; }
  void end_micro_batch(int micro_batch, int chunk) override {
    // Every leaf of the chunk is there: a block has 16 parameters, the two ends hold 2 and 3.
    std::size_t arrived = 0;
    for (const auto& [key, leaf] : leaves) {
      const auto& [piece, m, sequence, use] = key;
      if (m == micro_batch && sequence == 0 && table_.pieces()[index(piece)].piece == 0) ++arrived;
    }
    log +=
        "end" + print(Action{backward, micro_batch, chunk}) + ":" + std::to_string(arrived) + " ";
  }

  std::int64_t sum_tokens(std::int64_t mine) override { return mine; }
  void begin_step(std::int64_t) override {}
  StepTotals reduce(const StepShare&) override { return {}; }
  void update(const AdamWConfig&, const AdamWStep&, const std::vector<std::string>&) override {}
  void gather_parameters() override {}
  std::vector<StateShard> shards(const std::string&, bool) override { return {}; }
  void loaded() override {}
  PlanBytes bytes() const override { return {}; }
  std::uint64_t bytes_sent() const override { return 0; }

  static const GptShape shape;
  Leaves leaves;
  std::string log;

 private:
  static std::size_t index(int piece) { return static_cast<std::size_t>(piece); }
  LoneSeams::Sink sink() { return keep_leaves(leaves); }

  PieceTable table_;
  Schedule schedule_;
  Boundary boundary_;
  ChunkSeams first_, second_;
};

const GptShape TwoChunks::shape{.dropout = 0.1};

std::vector<MicroBatch> batches() {
  std::vector<MicroBatch> out;
  for (int m = 0; m < micro_batches; ++m) {
    out.push_back(random_batch(TwoChunks::shape, m, 2, seed, 4));
  }
  return out;
}

std::vector<LossLeaf> run(
    TwoChunks& plan, const std::function<void()>& before_backward = [] {}) {
  Metrics metrics("");
  metrics.begin_step(0);
  const auto losses =
      Executor(TwoChunks::shape, plan).run(batches(), 0.125, metrics, before_backward);
  const auto& parts = metrics.current().parts;
  EXPECT_GT(parts[static_cast<std::size_t>(Part::forward)], 0);
  EXPECT_GT(parts[static_cast<std::size_t>(Part::backward)], 0);
  return losses;
}

Schedule all(std::initializer_list<std::pair<ActionKind, int>> kinds_and_chunks) {
  Schedule schedule;
  for (int m = 0; m < micro_batches; ++m) {
    for (const auto& [kind, chunk] : kinds_and_chunks) schedule.push_back({kind, m, chunk});
  }
  return schedule;
}

TEST(Executor, ChunksAndHalvesOfBackwardsHaveTheBitsOfTheWholeModel) {
  const PieceTable table(gpt_pieces(TwoChunks::shape));
  Leaves expected;
  std::map<std::pair<int, int>, double> losses;
  LoneSeams seams(TwoChunks::shape, initial_parameters(TwoChunks::shape, table, seed),
                  keep_leaves(expected), seed);
  Gpt whole(TwoChunks::shape, table, seams);
  for (const MicroBatch& batch : batches()) {
    for (const LossLeaf& loss : whole.forward(batch)) {
      losses[{loss.micro_batch, loss.sequence_piece}] = loss.sum;
    }
    whole.backward(batch.index, 0.125);
  }
  const Schedule schedules[] = {all({{forward, 0}, {forward, 1}, {backward, 1}, {backward, 0}}),
                                all({{forward, 0},
                                     {forward, 1},
                                     {backward_input, 1},
                                     {backward_input, 0},
                                     {backward_weight, 0},
                                     {backward_weight, 1}})};
  for (const Schedule& schedule : schedules) {
    TwoChunks plan(schedule);
    for (const LossLeaf& loss : run(plan)) {
      EXPECT_EQ((losses[{loss.micro_batch, loss.sequence_piece}]), loss.sum);
    }
    ASSERT_EQ(plan.leaves.size(), expected.size());
    for (const auto& [key, leaf] : expected) {
      EXPECT_TRUE(same_bits(plan.leaves.at(key), leaf)) << "piece " << std::get<0>(key);
    }
  }
}

TEST(Executor, AMicroBatchEndsWhenItsLastGradientHasBeenHandedOver) {
  TwoChunks plan({{forward, 1, 0},
                  {forward, 1, 1},
                  {backward_input, 1, 1},
                  {backward_input, 1, 0},
                  {backward_weight, 1, 1},
                  {forward, 0, 0},
                  {forward, 0, 1},
                  {backward_weight, 1, 0},
                  {backward, 0, 1},
                  {backward, 0, 0}});
  const auto losses = run(plan, [&] { plan.log += "backward "; });
  EXPECT_EQ(plan.log, "backward endB1.1:19 endB1:37 endB0.1:19 endB0:37 ");
  ASSERT_EQ(losses.size(), 4U);
  EXPECT_EQ(losses[0].micro_batch, 1) << "in the order of the schedule";
  EXPECT_EQ(losses[2].micro_batch, 0);
}

TEST(ExecutorDeathTest, AScheduleOfSomebodyElsesMicroBatchIsABug) {
  TwoChunks plan({{forward, 3, 0}});
  EXPECT_DEATH(run(plan), "a schedule of micro-batches that this rank does not run");
}

}  // namespace
}  // namespace shardproof
