// ctest: golden
// One step's loss and gradients against PyTorch autograd in float64 from the same weights and
// batches, written in Python without a line of this program (make_golden.py). In float64 ours must
// agree to rounding; in float32, the dtype that trains, within the stated error of float32.
#include "golden/golden.h"

#include <gtest/gtest.h>

#include <cmath>

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

void expect_golden(const GoldenCase& golden, at::ScalarType dtype, Bounds bounds) {
  const PieceTable table(gpt_pieces(golden.shape));
  const auto step =
      lone_step(golden.shape, table, initial_parameters(golden.shape, table, golden.seed, dtype),
                batches_of(golden), golden.seed);
  const auto gradients =
      whole_gradients(table, step.leaves, golden.micro_batches, golden.shape.sequence_pieces);
  std::map<std::string, int> seen;
  for (const GoldenRow& row : read_golden(golden.file)) {
    SCOPED_TRACE(row.kind + " " + row.name + " " + std::to_string(row.index));
    ++seen[row.kind];
    if (row.kind == "loss") {
      EXPECT_NEAR(step.mean(), row.value, bounds.loss);
    } else if (row.kind == "count") {
      EXPECT_EQ(static_cast<double>(step.count), row.value);
    } else if (row.kind == "gradient") {
      const at::Tensor flat = gradients.at(row.name).flatten();
      EXPECT_NEAR(flat[row.index].item<double>(), row.value, bounds.gradient);
    } else if (row.kind == "norm") {
      const at::Tensor g = gradients.at(row.name).to(at::kDouble);
      EXPECT_NEAR(g.mul(g).sum().sqrt().item<double>(), row.value,
                  bounds.gradient * std::sqrt(static_cast<double>(g.numel())));
    }
  }
  EXPECT_EQ(seen["loss"], 1);
  EXPECT_EQ(seen["norm"], static_cast<int>(gradients.size()));
  EXPECT_GT(seen["gradient"], 1000);
}

// V and S cut the same function: the golden numbers do not know about pieces.
std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  for (const auto& [v, s] : {std::pair{1, 1}, {2, 2}, {4, 4}}) {
    cases.push_back({"first_step_tiny.csv", {.tensor_pieces = v, .sequence_pieces = s}, 1, 4, 4});
    cases.push_back({"first_step_packed.csv",
                     {.tensor_pieces = v, .sequence_pieces = s, .packed = true},
                     3,
                     2,
                     2});
  }
  for (const auto& [v, s] : {std::pair{1, 1}, {3, 4}}) {
    cases.push_back({"first_step_odd.csv",
                     {.layers = 3,
                      .width = 36,
                      .heads = 6,
                      .vocabulary = 61,
                      .sequence = 12,
                      .tensor_pieces = v,
                      .sequence_pieces = s},
                     2,
                     1,
                     3});
  }
  return cases;
}

TEST(Golden, FirstStepInFloat64) {
  for (const GoldenCase& golden : golden_cases()) {
    SCOPED_TRACE(golden.file);
    expect_golden(golden, at::kDouble, {.loss = 5e-15, .gradient = 1e-15});
  }
}

TEST(Golden, FirstStepInFloat32) {
  for (const GoldenCase& golden : golden_cases()) {
    SCOPED_TRACE(golden.file);
    expect_golden(golden, at::kFloat, {.loss = 5e-7, .gradient = 1e-7});
  }
}

TEST(Golden, InitialValuesAreThoseOfTheScript) {
  for (const GoldenCase& golden : golden_cases()) {
    const PieceTable table(gpt_pieces(golden.shape));
    const auto parameters = initial_parameters(golden.shape, table, golden.seed);
    Leaves leaves;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      leaves[{p, 0, 0}] = parameters[static_cast<std::size_t>(p)];
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
