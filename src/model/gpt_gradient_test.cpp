// ctest: unit timeout=120
// Gradients of the whole model against finite differences of its loss, in float64, for every
// element of every parameter of a small shape with all that changes the maths: pieces, biases,
// dropout, ignored targets, packed documents, label smoothing, tied weights. The kernels are those
// of float32, which the golden test checks.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/gpt.h"
#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::uint64_t seed = 7;

GptShape small_shape() {
  return {.layers = 2,
          .width = 8,
          .heads = 2,
          .vocabulary = 11,
          .sequence = 4,
          .tensor_pieces = 2,
          .sequence_pieces = 2,
          .dropout = 0.25};
}

double mean_loss(const GptShape& shape, const PieceTable& table,
                 const std::vector<at::Tensor>& parameters,
                 const std::vector<MicroBatch>& batches) {
  LoneSeams seams(shape, parameters, {}, seed);
  Gpt gpt(shape, table, seams);
  StepResult result;
  for (const MicroBatch& batch : batches) add_losses(gpt.forward(batch), result);
  return result.mean();
}

// The derivative along value, by central differences at h and h / 2 extrapolated to h -> 0
// (Richardson): truncation h^4, rounding some 10 x eps x |loss| / h = 5e-10.
double derivative(double& value, const std::function<double()>& loss) {
  constexpr double h = 1e-5;
  const double kept = value;
  const auto central = [&](double step) {
    value = kept + step;
    const double above = loss();
    value = kept - step;
    const double below = loss();
    value = kept;
    return (above - below) / (2 * step);
  };
  const double coarse = central(h);
  return (4 * central(h / 2) - coarse) / 3;
}

// Every element of every parameter.
void expect_finite_differences(const GptShape& shape, const std::vector<MicroBatch>& batches) {
  constexpr double bound = 1e-9;
  const PieceTable table(gpt_pieces(shape));
  auto parameters = initial_parameters(shape, table, seed, at::kDouble);
  // Larger weights than at the start of training, so that no gradient is near zero throughout.
  for (at::Tensor& p : parameters) p.mul_(5);
  const auto step = lone_step(shape, table, parameters, batches, seed);
  const auto loss = [&] { return mean_loss(shape, table, parameters, batches); };
  double largest = 0;
  for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
    at::Tensor& parameter = parameters[static_cast<std::size_t>(p)];
    const at::Tensor gradient =
        piece_gradient(step.leaves, p, static_cast<int>(batches.size()), shape.sequence_pieces);
    ASSERT_EQ(gradient.sizes(), parameter.sizes());
    const double* analytic = gradient.const_data_ptr<double>();
    double* value = parameter.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
      const double difference = std::abs(derivative(value[i], loss) - analytic[i]);
      ASSERT_LE(difference, bound) << table.pieces()[static_cast<std::size_t>(p)].name << " " << i;
      largest = std::max(largest, difference);
    }
  }
  EXPECT_GT(largest, 0);
}

TEST(Gpt, GradientsAreFiniteDifferences) {
  const GptShape shape = small_shape();
  expect_finite_differences(shape, {random_batch(shape, 0, 2, seed, 4)});
}

// A tied weight's derivative is that of both its uses.
TEST(Gpt, TiedAndSmoothedGradientsAreFiniteDifferences) {
  GptShape shape = small_shape();
  shape.layers = 1;
  shape.label_smoothing = 0.2;
  shape.tied = true;
  expect_finite_differences(shape, {random_batch(shape, 0, 2, seed, 4)});
}

TEST(Gpt, PackedGradientsAreFiniteDifferences) {
  GptShape shape = small_shape();
  shape.layers = 1;
  shape.packed = true;
  std::vector<MicroBatch> batches = {random_batch(shape, 0, 2, seed, 4)};
  batches[0].documents = {0, 0, 0, 1, 0, 1, 1, 2};
  batches[0].positions = {0, 1, 2, 0, 0, 0, 1, 0};
  expect_finite_differences(shape, batches);
}

}  // namespace
}  // namespace shardproof
