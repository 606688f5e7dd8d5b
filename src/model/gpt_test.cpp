// ctest: unit
// The whole model: agreement of shapes and modes, and the seams' promise that bits do not depend on
// how a rank runs (recompute, stages, several micro-batches in flight).
#include "model/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "base/error.h"
#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::uint64_t seed = 7;

std::vector<MicroBatch> batches_of(const GptShape& shape, int count, int rows) {
  std::vector<MicroBatch> batches;
  for (int m = 0; m < count; ++m) batches.push_back(random_batch(shape, m, rows, seed, 4));
  return batches;
}

double largest_difference(const std::map<std::string, at::Tensor>& a,
                          const std::map<std::string, at::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, gradient] : a) {
    const at::Tensor difference = gradient.sub(b.at(name)).abs();
    EXPECT_TRUE(std::isfinite(difference.sum().item<double>())) << name;
    largest = std::max(largest, difference.max().item<double>());
  }
  return largest;
}

// Cutting the model into pieces changes only the rounding: another Case, but the same function.
TEST(Gpt, PiecesComputeTheSameFunction) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    // Losses near 4.2, gradients up to 0.1; sums of some 100 terms: a few hundred roundings.
    const double bound = dtype == at::kFloat ? 2e-6 : 1e-14;
    GptShape whole{.tensor_pieces = 1, .sequence_pieces = 1};
    const PieceTable whole_table(gpt_pieces(whole));
    const auto batches = batches_of(whole, 2, 3);
    const auto expected = lone_step(
        whole, whole_table, initial_parameters(whole, whole_table, seed, dtype), batches, seed);
    const auto expected_gradients = whole_gradients(whole_table, expected.leaves, 2, 1);
    for (const auto& [v, s] : {std::pair{2, 1}, {1, 2}, {2, 2}, {4, 4}, {4, 16}}) {
      SCOPED_TRACE("V " + std::to_string(v) + " S " + std::to_string(s));
      GptShape cut = whole;
      cut.tensor_pieces = v;
      cut.sequence_pieces = s;
      const PieceTable table(gpt_pieces(cut));
      const auto step =
          lone_step(cut, table, initial_parameters(cut, table, seed, dtype), batches, seed);
      EXPECT_EQ(step.count, expected.count);
      EXPECT_NEAR(step.mean(), expected.mean(), bound);
      EXPECT_LE(largest_difference(whole_gradients(table, step.leaves, 2, s), expected_gradients),
                bound);
    }
  }
}

// A row that packs documents against one row for each document, padded with ignored targets.
TEST(Gpt, PackedEqualsSeparateDocuments) {
  GptShape packed{.sequence_pieces = 4, .packed = true};
  const std::vector<int> lengths = {3, 8, 5};
  MicroBatch together = random_batch(packed, 0, 1, seed, 4);
  MicroBatch separate = random_batch(packed, 0, static_cast<int>(lengths.size()), seed + 1, 0);
  separate.targets.assign(separate.targets.size(), MicroBatch::ignored);
  std::size_t at = 0;
  for (std::size_t document = 0; document < lengths.size(); ++document) {
    for (int t = 0; t < lengths[document]; ++t, ++at) {
      together.documents.push_back(static_cast<std::int32_t>(document));
      together.positions[at] = t;
      const std::size_t to = document * 16 + static_cast<std::size_t>(t);
      separate.tokens[to] = together.tokens[at];
      separate.targets[to] = together.targets[at];
    }
  }
  const PieceTable table(gpt_pieces(packed));
  const auto parameters = initial_parameters(packed, table, seed, at::kDouble);
  GptShape plain = packed;
  plain.packed = false;
  const auto a = lone_step(packed, table, parameters, {together}, seed);
  const auto b = lone_step(plain, table, parameters, {separate}, seed);
  EXPECT_EQ(a.count, b.count);
  EXPECT_NEAR(a.mean(), b.mean(), 1e-14);
  EXPECT_LE(largest_difference(whole_gradients(table, a.leaves, 1, 4),
                               whole_gradients(table, b.leaves, 1, 4)),
            1e-14);
  // The test can tell: without the mask the loss is another.
  const auto unmasked = lone_step(plain, table, parameters, {together}, seed);
  EXPECT_GT(std::abs(unmasked.mean() - a.mean()), 1e-6);
}

TEST(Gpt, IgnoredTargetsTakeNoPart) {
  const GptShape shape;
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  MicroBatch batch = random_batch(shape, 0, 2, seed);
  batch.targets.assign(batch.targets.size(), MicroBatch::ignored);
  const auto other = random_batch(shape, 1, 2, seed);
  const auto step = lone_step(shape, table, parameters, {batch, other}, seed);
  const auto alone = lone_step(shape, table, parameters, {other}, seed);
  EXPECT_EQ(step.count, 32);
  EXPECT_EQ(step.loss_sum, alone.loss_sum);
  for (const auto& [key, leaf] : step.leaves) {
    if (std::get<1>(key) == 0) {
      EXPECT_EQ(leaf.abs().max().item<float>(), 0);
    } else {
      EXPECT_TRUE(same_bits(leaf, alone.leaves.at(key)));
    }
  }
}

void expect_same(const Leaves& a, const Leaves& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, leaf] : a) {
    ASSERT_TRUE(same_bits(leaf, b.at(key))) << "piece " << std::get<0>(key) << " micro-batch "
                                            << std::get<1>(key) << " sequence " << std::get<2>(key);
  }
}

TEST(Gpt, OrderOfMicroBatchesChangesNoBit) {
  const GptShape shape{.dropout = 0.1};
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  const auto batches = batches_of(shape, 3, 2);
  const auto expected = lone_step(shape, table, parameters, batches, seed);
  Leaves leaves;
  LoneSeams seams(shape, parameters, keep_leaves(leaves), seed);
  Gpt gpt(shape, table, seams);
  const double scale = 1.0 / static_cast<double>(expected.count);
  for (const int m : {2, 0, 1}) {
    gpt.forward(batches[static_cast<std::size_t>(m)]);
    gpt.backward(m, scale);
  }
  expect_same(leaves, expected.leaves);
}

TEST(Gpt, DropoutIsAFunctionOfTheStep) {
  const GptShape shape{.dropout = 0.5};
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  const auto batches = batches_of(shape, 1, 2);
  const auto loss_at = [&](std::int64_t step) {
    LoneSeams seams(shape, parameters, {}, seed);
    seams.set_step(step);
    return Gpt(shape, table, seams).forward(batches[0])[0].sum;
  };
  EXPECT_EQ(loss_at(3), loss_at(3));
  EXPECT_NE(loss_at(3), loss_at(4));
}

// A tied model against an untied one whose head holds the embedding's values: the same losses, and
// the leaves of the two uses are those of the two parameters, bit for bit.
TEST(Gpt, TiedUsesAreTheTwoParametersOfAnUntiedModel) {
  const GptShape untied{.vocabulary = 61, .dropout = 0.1, .label_smoothing = 0.1};
  GptShape tied = untied;
  tied.tied = true;
  const PieceTable tied_table(gpt_pieces(tied));
  const PieceTable untied_table(gpt_pieces(untied));
  auto parameters = initial_parameters(untied, untied_table, seed);
  for (int v = 0; v < untied.tensor_pieces; ++v) {
    const auto at = [&](const char* name) {
      return static_cast<std::size_t>(untied_table.index(name, v));
    };
    parameters[at("head.weight")] = parameters[at("embed.weight")];
  }
  const auto batches = batches_of(untied, 2, 2);
  const auto step =
      lone_step(tied, tied_table, initial_parameters(tied, tied_table, seed), batches, seed);
  const auto expected = lone_step(untied, untied_table, parameters, batches, seed);
  EXPECT_EQ(step.loss_sum, expected.loss_sum);
  ASSERT_EQ(step.leaves.size(), expected.leaves.size());
  int second = 0;
  for (const auto& [key, leaf] : step.leaves) {
    const auto& [index, micro_batch, sequence, use] = key;
    const PieceSpec& piece = tied_table.pieces()[static_cast<std::size_t>(index)];
    second += use;
    const int other = untied_table.index(use == 1 ? "head.weight" : piece.name, piece.piece);
    ASSERT_TRUE(same_bits(leaf, expected.leaves.at({other, micro_batch, sequence, 0})))
        << piece.name << " use " << use;
  }
  EXPECT_EQ(second, 2 * untied.tensor_pieces * untied.sequence_pieces);
  for (int v = 0; v < untied.tensor_pieces; ++v) {
    const auto sum = [&](const StepResult& of, const PieceTable& table, const char* name) {
      return piece_gradient(of.leaves, table.index(name, v), 2, untied.sequence_pieces);
    };
    EXPECT_TRUE(same_bits(sum(step, tied_table, "embed.weight"),
                          sum(expected, untied_table, "head.weight")
                              .add(sum(expected, untied_table, "embed.weight"))));
  }
}

class RecomputingSeams : public LoneSeams {
 public:
  using LoneSeams::LoneSeams;
  bool recompute(int layer) const override { return layer == 1; }
  at::Tensor parameter(int piece_index, const Site& site) override {
    if (site.pass == Pass::recompute) ++recomputed;
    return LoneSeams::parameter(piece_index, site);
  }
  int recomputed = 0;
};

TEST(Gpt, RecomputingChangesNoBit) {
  const GptShape shape{.dropout = 0.1};
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  const auto batches = batches_of(shape, 2, 2);
  const auto expected = lone_step(shape, table, parameters, batches, seed);
  Leaves leaves;
  RecomputingSeams seams(shape, parameters, keep_leaves(leaves), seed);
  const auto step = run_step(shape, table, seams, batches);
  EXPECT_EQ(step.loss_sum, expected.loss_sum);
  expect_same(leaves, expected.leaves);
  EXPECT_GT(seams.recomputed, 0);
}

// Two pipeline stages on one thread: activations cross through a queue.
class StageSeams : public LoneSeams {
 public:
  StageSeams(const GptShape& shape, std::vector<at::Tensor> parameters, Sink sink, int first,
             int last, std::deque<at::Tensor>& queue)
      : LoneSeams(shape, std::move(parameters), std::move(sink), seed),
        owned_(LoneSeams::owned()),
        queue_(queue) {
    owned_.first_layer = first;
    owned_.last_layer = last;
  }
  const OwnedPieces& owned() const override { return owned_; }
  void stage_send(at::Tensor activation, const Site&) override { queue_.push_back(activation); }
  at::Tensor stage_receive(at::IntArrayRef shape, const Site&) override {
    at::Tensor front = queue_.at(0);
    queue_.pop_front();
    EXPECT_EQ(front.sizes(), shape);
    return front;
  }

 private:
  OwnedPieces owned_;
  std::deque<at::Tensor>& queue_;
};

TEST(Gpt, StagesChangeNoBit) {
  const GptShape shape{.dropout = 0.1};
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  const auto batches = batches_of(shape, 2, 2);
  const auto expected = lone_step(shape, table, parameters, batches, seed);
  Leaves leaves;
  std::deque<at::Tensor> queue;
  StageSeams first(shape, parameters, keep_leaves(leaves), 0, 1, queue);
  StageSeams second(shape, parameters, keep_leaves(leaves), 1, 2, queue);
  Gpt front(shape, table, first);
  Gpt back(shape, table, second);
  StepResult step;
  for (const MicroBatch& batch : batches) {
    EXPECT_TRUE(front.forward(batch).empty());
    add_losses(back.forward(batch), step);
  }
  for (const MicroBatch& batch : batches) {
    back.backward(batch.index, 1.0 / static_cast<double>(expected.count));
    front.backward(batch.index, 0);  // the seed is the last stage's
  }
  EXPECT_EQ(step.loss_sum, expected.loss_sum);
  EXPECT_TRUE(queue.empty());
  expect_same(leaves, expected.leaves);
}

// Order of arrival and bits, with other micro-batches in flight between the two halves.
TEST(Gpt, ASplitBackwardHandsOverTheSameLeavesInTheSameOrder) {
  const GptShape shape{.layers = 3, .dropout = 0.1};
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  const auto batches = batches_of(shape, 3, 2);
  using Arrivals = std::vector<std::tuple<int, int, int>>;  // (micro-batch, piece, sequence piece)
  const auto run = [&](Leaves& leaves, Arrivals& arrivals, const auto& backward) {
    const auto keep = keep_leaves(leaves);
    LoneSeams seams(
        shape, parameters,
        [&](int piece, int s, at::Tensor leaf, const Site& site) {
          arrivals.emplace_back(site.micro_batch, piece, s);
          keep(piece, s, std::move(leaf), site);
        },
        seed);
    Gpt gpt(shape, table, seams);
    for (const MicroBatch& batch : batches) gpt.forward(batch);
    backward(gpt, arrivals);
  };
  Leaves fused, split;
  Arrivals of_fused, of_split;
  run(fused, of_fused, [](Gpt& gpt, Arrivals&) {
    for (int m = 0; m < 3; ++m) gpt.backward(m, 0.125);
  });
  run(split, of_split, [](Gpt& gpt, Arrivals& arrivals) {
    gpt.backward_input(0, 0.125);
    gpt.backward_input(1, 0.125);
    EXPECT_TRUE(arrivals.empty()) << "every leaf waits for the second half";
    gpt.backward_weight(0);
    gpt.backward_input(2, 0.125);
    gpt.backward_weight(1);
    gpt.backward_weight(2);
  });
  EXPECT_EQ(of_split, of_fused);
  expect_same(split, fused);
}

TEST(Gpt, RefusesIdsOutsideTheModel) {
  const GptShape shape;
  const PieceTable table(gpt_pieces(shape));
  LoneSeams seams(shape, initial_parameters(shape, table, seed), {}, seed);
  Gpt gpt(shape, table, seams);
  const auto refusal = [&](auto spoil) {
    MicroBatch batch = random_batch(shape, 3, 2, seed);
    spoil(batch);
    try {
      gpt.forward(batch);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.place() + ": " + error.detail();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal([](MicroBatch& b) { b.tokens[17] = 64; }),
            "micro-batch 3, row 1, column 1: token is 64; expected 0 to 63");
  EXPECT_EQ(refusal([](MicroBatch& b) { b.targets[0] = -2; }),
            "micro-batch 3, row 0, column 0: target is -2; expected -1 to 63");
  EXPECT_EQ(refusal([](MicroBatch& b) { b.positions[31] = 16; }),
            "micro-batch 3, row 1, column 15: position is 16; expected 0 to 15");
}

TEST(GptDeathTest, MicroBatchesFlyOnce) {
  const GptShape shape;
  const PieceTable table(gpt_pieces(shape));
  LoneSeams seams(shape, initial_parameters(shape, table, seed), {}, seed);
  Gpt gpt(shape, table, seams);
  EXPECT_DEATH(gpt.backward(0, 1), "micro-batch 0 is not in flight");
  EXPECT_DEATH(gpt.backward_weight(0), "micro-batch 0 is not in flight");
  gpt.forward(random_batch(shape, 0, 2, seed));
  EXPECT_DEATH(gpt.forward(random_batch(shape, 0, 2, seed)), "micro-batch 0 is already in flight");
  EXPECT_DEATH(gpt.backward_weight(0), "before those of the input");
  gpt.backward_input(0, 1);
  EXPECT_DEATH(gpt.backward(0, 1), "a second backward");
  EXPECT_DEATH(gpt.backward_input(0, 1), "a second backward");
}

}  // namespace
}  // namespace shardproof
