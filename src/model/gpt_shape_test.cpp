// ctest: unit
// The shape: what is refused and how, the pieces, and initial values that do not depend on the cut.
#include "model/gpt_shape.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>

namespace shardproof {
namespace {

TEST(GptShape, LegalShapes) {
  EXPECT_EQ(problem({}), "");
  EXPECT_EQ(problem({.tensor_pieces = 4, .sequence_pieces = 16, .dropout = 0.5}), "");
  EXPECT_EQ(problem({.layers = 1,
                     .width = 1,
                     .heads = 1,
                     .vocabulary = 1,
                     .sequence = 1,
                     .tensor_pieces = 1,
                     .sequence_pieces = 1}),
            "");
}

TEST(GptShape, RefusalsNameWhatWasExpected) {
  EXPECT_EQ(problem({.layers = 0}), "layers is 0; expected at least 1");
  EXPECT_EQ(problem({.vocabulary = -5}), "vocabulary is -5; expected at least 1");
  EXPECT_EQ(problem({.heads = 5}),
            "width 32 is not divisible by heads 5; expected heads to be one of 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(problem({.tensor_pieces = 3}),
            "tensor pieces 3 do not divide heads 4; expected one of 1, 2, 4");
  EXPECT_EQ(problem({.vocabulary = 1}), "vocabulary 1 is smaller than tensor pieces 2");
  EXPECT_EQ(problem({.sequence_pieces = 5}),
            "sequence pieces 5 do not divide sequence 16; expected one of 1, 2, 4, 8, 16");
  EXPECT_EQ(problem({.dropout = 1}), "dropout is 1; expected 0 <= dropout < 1");
  EXPECT_EQ(problem({.dropout = std::nan("")}), "dropout is nan; expected 0 <= dropout < 1");
  EXPECT_EQ(problem({.label_smoothing = 1}), "");
  EXPECT_EQ(problem({.label_smoothing = 1.5}),
            "label smoothing is 1.5; expected 0 <= label smoothing <= 1");
}

// Parameters of the default shape, counted by hand: embeddings 64 x 32 + 16 x 32, head 64 x 32,
// final norm 64; a block 4 x 32, 4 x (32 x 32 + 32), 2 x 32 x 128 + 128 + 32.
TEST(GptShape, CountsItsParametersByFormula) {
  for (const int layers : {1, 2, 6}) {
    GptShape shape;
    shape.layers = layers;
    shape.vocabulary = 61;
    EXPECT_EQ(parameter_count(shape), PieceTable(gpt_pieces(shape)).elements());
    shape.tied = true;
    EXPECT_EQ(parameter_count(shape), PieceTable(gpt_pieces(shape)).elements());
  }
}

TEST(GptShape, ATiedModelHasNoHeadWeight) {
  GptShape shape;
  const PieceTable untied(gpt_pieces(shape));
  shape.tied = true;
  const PieceTable tied(gpt_pieces(shape));
  EXPECT_EQ(tied.elements(), untied.elements() - 64 * 32);
  EXPECT_EQ(tied.pieces().size(), untied.pieces().size() - 2);
  for (const PieceSpec& piece : tied.pieces()) EXPECT_NE(piece.name, "head.weight");
}

TEST(GptShape, PiecesCoverEveryParameterOnce) {
  const std::int64_t expected = 2048 + 512 + 2048 + 64 + 2 * (128 + 4224 + 8352);
  for (const int v : {1, 2, 4}) {
    const PieceTable table(gpt_pieces({.tensor_pieces = v}));
    EXPECT_EQ(table.elements(), expected);
    std::map<std::string, int> pieces;
    for (const PieceSpec& piece : table.pieces()) ++pieces[piece.name];
    EXPECT_EQ(pieces.size(), 37u);
    EXPECT_EQ(pieces["embed.weight"], v);
    EXPECT_EQ(pieces["blocks.1.attn.q.bias"], v);
    EXPECT_EQ(pieces["blocks.1.attn.proj.bias"], 1);
    EXPECT_EQ(pieces["pos.weight"], 1);
  }
  const PieceTable table(gpt_pieces({}));
  const PieceSpec& down =
      table.pieces()[static_cast<std::size_t>(table.index("blocks.0.mlp.down.weight", 1))];
  EXPECT_EQ(down.box, (Box{{0, 64}, {32, 64}}));
}

RC_GTEST_PROP(InitialValues, AreFunctionsOfTheGlobalElement, (std::uint64_t seed)) {
  const GptShape whole{.tensor_pieces = 1};
  const GptShape cut{.tensor_pieces = 4};
  const auto pieces = gpt_pieces(cut);
  const PieceSpec piece = *rc::gen::elementOf(pieces);
  const auto element = *rc::gen::inRange<std::int64_t>(0, piece.elements());
  std::int64_t rest = element, global = 0, stride = 1;
  for (std::size_t d = piece.box.shape.size(); d-- > 0;) {
    global += (piece.box.offsets[d] + rest % piece.box.shape[d]) * stride;
    rest /= piece.box.shape[d];
    stride *= piece.global_shape[d];
  }
  const PieceTable table(gpt_pieces(whole));
  const PieceSpec& of_whole = table.pieces()[static_cast<std::size_t>(table.index(piece.name, 0))];
  RC_ASSERT(initial_value(cut, piece, element, seed) ==
            initial_value(whole, of_whole, global, seed));
}

TEST(InitialValues, HaveTheStatedDeviations) {
  const GptShape shape{.layers = 8, .width = 64, .tensor_pieces = 1};
  for (const PieceSpec& piece : gpt_pieces(shape)) {
    std::vector<float> values(static_cast<std::size_t>(piece.elements()));
    initial_values(shape, piece, {0, piece.elements()}, 9, values.data());
    double sum = 0, squares = 0;
    for (const float v : values) {
      sum += v;
      squares += double{v} * v;
    }
    const auto n = static_cast<double>(values.size());
    const bool norm = piece.name.find("ln") != std::string::npos;
    const bool weight = piece.name.ends_with(".weight");
    if (norm && weight) {
      EXPECT_EQ(sum, n) << piece.name;
      EXPECT_EQ(squares, n) << piece.name;
      continue;
    }
    const bool residual = weight && (piece.name.find("proj") != std::string::npos ||
                                     piece.name.find("down") != std::string::npos);
    const double deviation = residual ? 0.005 : 0.02;  // 0.02 / sqrt(2 x 8)
    // Five standard errors.
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << piece.name;
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n)) << piece.name;
  }
}

TEST(InitialValuesDeathTest, StayInsideThePiece) {
  const GptShape shape;
  const PieceSpec piece = gpt_pieces(shape)[0];
  EXPECT_DEATH(initial_value(shape, piece, piece.elements(), 1), piece.name);
  EXPECT_DEATH(initial_value(shape, piece, -1, 1), piece.name);
}

// 6 layers, width 384, vocabulary 256, sequence 128: 6 x (12 x 384^2 x 6 + 384 x 256) + 12 x 384 x
// 6 x 128.
TEST(Flops, CountProductsAndAttention) {
  EXPECT_EQ(
      flops_per_token({.layers = 6, .width = 384, .heads = 6, .vocabulary = 256, .sequence = 128}),
      6.0 * (10616832 + 98304) + 3538944);
  // The head's product is there when its weight is the embedding's.
  GptShape tied;
  tied.tied = true;
  EXPECT_EQ(flops_per_token(tied), flops_per_token({}));
}

}  // namespace
}  // namespace shardproof
