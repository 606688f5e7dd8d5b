// ctest: golden
// One step's loss and gradients against PyTorch autograd in float64 from the same weights and
// batches, written in Python without a line of this program (make_golden.py). In float64 ours must
// agree to rounding; in float32, the dtype that trains, within the stated error of float32.
#include "golden/golden.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

struct GoldenCase {
  const char* file;
  GptShape shape;
  std::uint64_t seed;
  int micro_batches;
  int rows;
  int gradients;  // rows at least
};

std::vector<MicroBatch> batches_of(const GoldenCase& golden) {
  std::vector<MicroBatch> batches;
  for (int m = 0; m < golden.micro_batches; ++m) {
    MicroBatch batch = random_batch(golden.shape, m, golden.rows, golden.seed, 8);
    for (std::size_t i = 0; golden.shape.packed && i < batch.tokens.size(); ++i) {
      const auto column = static_cast<std::int32_t>(i) % batch.length;
      batch.documents.push_back(column / 5);
      batch.positions[i] = column % 5;
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

// Bounds are absolute: the largest gradient element of these steps is near 0.1, the loss near 4.2.
// float64: seen 1e-16 for gradients and none for the loss. float32: seen 2e-8 for gradients (three
// units in the last place of the largest), below 1e-7 for the loss (whose unit is 4.8e-7). The rest
// is for other CPUs' kernels.
struct Bounds {
  double loss;
  double gradient;
};
constexpr Bounds in_float64{.loss = 5e-15, .gradient = 1e-15};
constexpr Bounds in_float32{.loss = 5e-7, .gradient = 1e-7};

// One step of ours, in the words of the table.
struct FirstStep {
  double loss = 0;
  std::int64_t count = 0;
  std::map<std::string, at::Tensor> gradients;
};

using Spoil = std::function<void(const PieceTable&, Leaves&)>;

FirstStep first_step(const GoldenCase& golden, at::ScalarType dtype, const Spoil& spoil = {}) {
  const PieceTable table(gpt_pieces(golden.shape));
  auto step =
      lone_step(golden.shape, table, initial_parameters(golden.shape, table, golden.seed, dtype),
                batches_of(golden), golden.seed);
  if (spoil) spoil(table, step.leaves);
  return {step.mean(), step.count,
          whole_gradients(table, step.leaves, golden.micro_batches, golden.shape.sequence_pieces)};
}

// The rows of the table that this step does not agree with, one line each.
std::vector<std::string> disagreements(const GoldenCase& golden, const FirstStep& step,
                                       Bounds bounds) {
  std::vector<std::string> wrong;
  std::map<std::string, int> seen;
  for (const GoldenRow& row : read_golden(golden.file)) {
    ++seen[row.kind];
    double ours = row.value, bound = bounds.gradient;
    if (row.kind == "loss") {
      ours = step.loss, bound = bounds.loss;
    } else if (row.kind == "count") {
      ours = static_cast<double>(step.count), bound = 0;
    } else if (row.kind == "gradient") {
      ours = step.gradients.at(row.name).flatten()[row.index].item<double>();
    } else if (row.kind == "norm") {
      const at::Tensor g = step.gradients.at(row.name).to(at::kDouble);
      ours = g.mul(g).sum().sqrt().item<double>();
      bound *= std::sqrt(static_cast<double>(g.numel()));
    }
    if (!(std::abs(ours - row.value) <= bound)) {
      wrong.push_back(
          fmt::format("{} {} {}: {} for {}", row.kind, row.name, row.index, ours, row.value));
    }
  }
  EXPECT_EQ(seen["loss"], 1);
  EXPECT_EQ(seen["norm"], static_cast<int>(step.gradients.size()));
  EXPECT_GT(seen["gradient"], golden.gradients);
  return wrong;
}

std::string print(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// V and S cut the same function: the golden numbers do not know about pieces.
std::vector<GoldenCase> golden_cases() {
  const GptShape odd{.layers = 3, .width = 36, .heads = 6, .vocabulary = 61, .sequence = 12};
  const GptShape everything{
      .vocabulary = 61, .dropout = 0.1, .packed = true, .label_smoothing = 0.1, .tied = true};
  const GoldenCase whole[] = {
      {"first_step_tiny.csv", {}, 1, 4, 4, 1000},
      {"first_step_packed.csv", {.packed = true}, 3, 2, 2, 1000},
      {"first_step_odd.csv", odd, 2, 1, 3, 1000},
      {"first_step_smoothed.csv", {.vocabulary = 61, .label_smoothing = 0.1}, 4, 2, 2, 250},
      {"first_step_tied.csv", {.vocabulary = 61, .tied = true}, 5, 2, 2, 250},
      {"first_step_dropout.csv", {.dropout = 0.25}, 6, 2, 2, 250},
      {"first_step_everything.csv", everything, 7, 2, 2, 250}};
  std::vector<GoldenCase> cases;
  for (const GoldenCase& golden : whole) {
    const bool thirds = golden.shape.heads % 3 == 0;
    for (const auto& [v, s] : {std::pair{1, 1}, {2, 2}, {thirds ? 3 : 4, 4}}) {
      cases.push_back(golden);
      cases.back().shape.tensor_pieces = v;
      cases.back().shape.sequence_pieces = s;
    }
  }
  return cases;
}

TEST(Golden, FirstStepInFloat64) {
  for (const GoldenCase& golden : golden_cases()) {
    SCOPED_TRACE(golden.file);
    EXPECT_EQ(print(disagreements(golden, first_step(golden, at::kDouble), in_float64)), "");
  }
}

TEST(Golden, FirstStepInFloat32) {
  for (const GoldenCase& golden : golden_cases()) {
    SCOPED_TRACE(golden.file);
    EXPECT_EQ(print(disagreements(golden, first_step(golden, at::kFloat), in_float32)), "");
  }
}

// The masks that the script multiplied by are those that ours would.
TEST(Golden, DropoutMasksAreThoseOfTheScript) {
  int seen = 0;
  for (const GoldenCase& golden : golden_cases()) {
    const GptShape& shape = golden.shape;
    LoneSeams seams(shape, {}, {}, golden.seed);
    const auto batches = batches_of(golden);
    const std::int64_t length = shape.sequence / shape.sequence_pieces;
    for (const GoldenRow& row : read_golden(golden.file)) {
      if (row.kind != "mask") continue;
      ++seen;
      int layer = -1;
      const char* what = "embed.dropout";
      for (int n = 0; n < shape.layers; ++n) {
        for (const char* site : {"attn.dropout", "mlp.dropout"}) {
          if (row.name == fmt::format("blocks.{}.{}", n, site)) layer = n, what = site;
        }
      }
      ASSERT_TRUE(layer >= 0 || row.name == what) << row.name;
      const std::int64_t token = row.index / shape.width;
      const std::int64_t sample = token / shape.sequence, position = token % shape.sequence;
      const auto m = static_cast<std::size_t>(sample / golden.rows);
      const auto s = static_cast<int>(position / length);
      const at::Tensor mask =
          seams.dropout_mask(batches.at(m), s, {what, layer, static_cast<int>(m), s}, at::kDouble);
      const double value =
          mask[sample % golden.rows][position % length][row.index % shape.width].item<double>();
      ASSERT_EQ(value, row.value / (1 - shape.dropout)) << row.name << " " << row.index;
    }
  }
  EXPECT_GT(seen, 300);
}

const GoldenCase& case_of(const std::vector<GoldenCase>& cases, const std::string& file) {
  for (const GoldenCase& golden : cases) {
    if (file == golden.file && golden.shape.tensor_pieces == 2) return golden;
  }
  throw std::logic_error("no such case: " + file);
}

bool any_of(const std::vector<std::string>& lines, const std::string& start) {
  return std::ranges::any_of(lines, [&](const auto& line) { return line.starts_with(start); });
}

// Each table tells a wrong program from a right one, in float32 as well.
TEST(GoldenCanFail, AWrongSmoothingTerm) {
  const auto cases = golden_cases();
  for (const double epsilon : {0.0, 0.1 * 61 / 60}) {  // none; spread over the other entries alone
    GoldenCase wrong = case_of(cases, "first_step_smoothed.csv");
    wrong.shape.label_smoothing = epsilon;
    const auto lines = disagreements(wrong, first_step(wrong, at::kFloat), in_float32);
    EXPECT_TRUE(any_of(lines, "loss mean")) << epsilon;
    EXPECT_TRUE(any_of(lines, "gradient head.weight")) << epsilon;
  }
}

TEST(GoldenCanFail, ADroppedGradientOfATiedWeight) {
  const auto cases = golden_cases();
  for (const int dropped : {0, 1}) {
    const GoldenCase& golden = case_of(cases, "first_step_tied.csv");
    const auto spoil = [&](const PieceTable& table, Leaves& leaves) {
      for (auto& [key, leaf] : leaves) {
        const auto index = static_cast<std::size_t>(std::get<0>(key));
        if (table.pieces()[index].name == "embed.weight" && std::get<3>(key) == dropped) {
          leaf.zero_();
        }
      }
    };
    const auto lines = disagreements(golden, first_step(golden, at::kFloat, spoil), in_float32);
    EXPECT_FALSE(any_of(lines, "loss"));
    EXPECT_TRUE(any_of(lines, "norm embed.weight"));
    EXPECT_FALSE(any_of(lines, "norm pos.weight"));
  }
}

TEST(GoldenCanFail, AnotherMask) {
  const auto cases = golden_cases();
  GoldenCase wrong = case_of(cases, "first_step_dropout.csv");
  wrong.shape.dropout = 0.2501;  // some masks differ in an element, all in their scale
  EXPECT_FALSE(disagreements(wrong, first_step(wrong, at::kFloat), in_float32).empty());
}

TEST(Golden, InitialValuesAreThoseOfTheScript) {
  for (const GoldenCase& golden : golden_cases()) {
    const PieceTable table(gpt_pieces(golden.shape));
    const auto parameters = initial_parameters(golden.shape, table, golden.seed);
    Leaves leaves;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      leaves[{p, 0, 0, 0}] = parameters[static_cast<std::size_t>(p)];
    }
    const auto whole = whole_gradients(table, leaves, 1, 1);  // put together from pieces
    int weights = 0;
    for (const GoldenRow& row : read_golden(golden.file)) {
      if (row.kind != "weight") continue;
      ++weights;
      EXPECT_EQ(static_cast<double>(whole.at(row.name).flatten()[row.index].item<float>()),
                row.value)
          << row.name << " " << row.index;
    }
    EXPECT_GT(weights, 100);
  }
}

TEST(Golden, RefusesDamagedTables) {
  const std::string header = "kind,name,index,value\n";
  const auto refusal = [](const std::string& text) {
    try {
      parse_golden(text, "table.csv");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      return error.place() + ": " + error.detail();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("kind,name\n"), "table.csv:1: 'kind,name'; expected kind,name,index,value");
  EXPECT_EQ(refusal(header + "loss,mean,0,4.1x\n"),
            "table.csv:2: 'loss,mean,0,4.1x'; expected kind,name,integer,number");
  EXPECT_EQ(refusal(header + "loss,mean,0\n"),
            "table.csv:2: 'loss,mean,0'; expected kind,name,integer,number");
  EXPECT_EQ(refusal(header), "table.csv: no rows; expected kind,name,index,value");
  EXPECT_EQ(parse_golden(header + "loss,mean,0,-1.5e-3\n", "t")[0].value, -1.5e-3);
  EXPECT_THROW(read_golden("absent.csv"), Error);
}

}  // namespace
}  // namespace shardproof
