// ctest: unit
// Layers and row loops against plain double loops written here. Bounds are for float64 operands of
// order one and sums of at most 40 terms: some 40 x 1.1e-16.
#include "model/layers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/gpt_testing.h"
#include "model/rows.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr double bound = 1e-14;

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  at::Tensor t = at::empty({rows, columns}, at::TensorOptions(at::kDouble));
  const Random random(seed, Purpose::test);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.mutable_data_ptr<double>()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return t;
}

at::Tensor random_vector(std::int64_t n, std::uint64_t seed) {
  return random_matrix(1, n, seed).view({n});
}

double at_2d(const at::Tensor& t, std::int64_t row, std::int64_t column) {
  return t.const_data_ptr<double>()[row * t.size(1) + column];
}

double at_1d(const at::Tensor& t, std::int64_t i) {
  return t.const_data_ptr<double>()[i];
}

TEST(Linear, ForwardAndBackward) {
  const at::Tensor x = random_matrix(5, 7, 1), w = random_matrix(3, 7, 2), b = random_vector(3, 3);
  const at::Tensor g = random_matrix(5, 3, 4);
  const at::Tensor y = linear(x, w, b), plain = linear(x, w, {});
  at::Tensor dx = linear_input_gradient(g, w);
  const at::Tensor dw = linear_weight_gradient(g, x);
  ASSERT_EQ(y.sizes(), (std::vector<std::int64_t>{5, 3}));
  for (std::int64_t n = 0; n < 5; ++n) {
    for (std::int64_t o = 0; o < 3; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < 7; ++i) sum += at_2d(x, n, i) * at_2d(w, o, i);
      EXPECT_NEAR(at_2d(plain, n, o), sum, bound);
      EXPECT_NEAR(at_2d(y, n, o), sum + at_1d(b, o), bound);
    }
    for (std::int64_t i = 0; i < 7; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; o < 3; ++o) sum += at_2d(g, n, o) * at_2d(w, o, i);
      EXPECT_NEAR(at_2d(dx, n, i), sum, bound);
    }
  }
  for (std::int64_t o = 0; o < 3; ++o) {
    for (std::int64_t i = 0; i < 7; ++i) {
      double sum = 0;
      for (std::int64_t n = 0; n < 5; ++n) sum += at_2d(g, n, o) * at_2d(x, n, i);
      EXPECT_NEAR(at_2d(dw, o, i), sum, bound);
    }
  }
  const double before = at_2d(dx, 4, 6);
  add_linear_input_gradient(dx, g, w);
  EXPECT_NEAR(at_2d(dx, 4, 6), 2 * before, bound);
}

// A contiguous fp32 matrix that begins `shift` elements behind a cache line.
at::Tensor shifted(std::int64_t rows, std::int64_t columns, std::int64_t shift,
                   std::uint64_t seed) {
  const at::Tensor all = at::empty({rows * columns + shift}, at::TensorOptions(at::kFloat));
  const at::Tensor out = all.narrow(0, shift, rows * columns).view({rows, columns});
  const Random random(seed, Purpose::test);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return out;
}

// Where a piece lies in an arena depends on the layout; its products must not.
TEST(Linear, BitsDoNotDependOnWhereAnOperandLies) {
  const auto bits = [](const at::Tensor& t) {
    const at::Tensor whole = t.contiguous();
    return std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
  };
  for (std::int64_t rows = 1; rows <= 3; ++rows) {
    for (std::int64_t in = 1; in <= 12; ++in) {
      for (std::int64_t out = 1; out <= 12; ++out) {
        const auto all = [&](std::int64_t a, std::int64_t b) {
          const at::Tensor x = shifted(rows, in, a, 1), g = shifted(rows, out, a, 2);
          const at::Tensor w = shifted(out, in, b, 3);
          return bits(linear(x, w, {})) + bits(linear_input_gradient(g, w)) +
                 bits(linear_weight_gradient(g, shifted(rows, in, b, 1)));
        };
        const std::string reference = all(0, 0);
        for (std::int64_t shift = 1; shift < 16; shift += 2) {
          ASSERT_EQ(all(shift % 5, shift), reference)
              << rows << "x" << in << "x" << out << " at " << shift;
        }
      }
    }
  }
}

TEST(LinearDeathTest, OperandsEnterContiguous) {
  const at::Tensor x = random_matrix(4, 4, 1), w = random_matrix(4, 4, 2);
  EXPECT_DEATH(linear(x.t(), w, {}), "contiguous");
  EXPECT_DEATH(linear_input_gradient(x, w.t()), "contiguous");
  EXPECT_DEATH(linear_weight_gradient(x, w.t()), "contiguous");
  EXPECT_DEATH(gelu(x.t()), "contiguous");
}

TEST(LayerNorm, ForwardAndBackward) {
  constexpr std::int64_t rows = 3, width = 8;
  const at::Tensor x = random_matrix(rows, width, 1), w = random_vector(width, 2),
                   b = random_vector(width, 3), g = random_matrix(rows, width, 4);
  const Normalized norm = layer_norm(x, w, b);
  const NormGradients grads = layer_norm_backward(g, x, norm.mean, norm.rstd, w, b);
  std::vector<double> dw(width), db(width);
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, sum_g = 0, sum_gx = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += at_2d(x, r, i) / width;
    for (std::int64_t i = 0; i < width; ++i) {
      variance += (at_2d(x, r, i) - mean) * (at_2d(x, r, i) - mean) / width;
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    const auto hat = [&](std::int64_t i) { return (at_2d(x, r, i) - mean) * rstd; };
    for (std::int64_t i = 0; i < width; ++i) {
      EXPECT_NEAR(at_2d(norm.out, r, i), hat(i) * at_1d(w, i) + at_1d(b, i), bound);
      dw[static_cast<std::size_t>(i)] += at_2d(g, r, i) * hat(i);
      db[static_cast<std::size_t>(i)] += at_2d(g, r, i);
      sum_g += at_2d(g, r, i) * at_1d(w, i) / width;
      sum_gx += at_2d(g, r, i) * at_1d(w, i) * hat(i) / width;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const double dx = rstd * (at_2d(g, r, i) * at_1d(w, i) - sum_g - hat(i) * sum_gx);
      EXPECT_NEAR(at_2d(grads.input, r, i), dx, bound);
    }
  }
  for (std::int64_t i = 0; i < width; ++i) {
    EXPECT_NEAR(at_1d(grads.weight, i), dw[static_cast<std::size_t>(i)], bound);
    EXPECT_NEAR(at_1d(grads.bias, i), db[static_cast<std::size_t>(i)], bound);
  }
}

TEST(Gelu, IsTheExactForm) {
  const at::Tensor x = random_matrix(4, 9, 1), g = random_matrix(4, 9, 2);
  const at::Tensor y = gelu(x), dx = gelu_backward(g, x);
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t i = 0; i < 9; ++i) {
      const double v = at_2d(x, r, i);
      const double phi = 0.5 * std::erfc(-v / std::sqrt(2.0));
      const double density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
      EXPECT_NEAR(at_2d(y, r, i), v * phi, bound);
      EXPECT_NEAR(at_2d(dx, r, i), at_2d(g, r, i) * (phi + v * density), bound);
    }
  }
}

TEST(Rows, LookUpAndItsGradient) {
  const at::Tensor table = random_matrix(3, 4, 1);  // vocabulary entries 5, 6, 7
  const std::vector<std::int32_t> ids = {7, 4, 5, 8, 7};
  const at::Tensor rows = look_up(table, ids, 5);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(at_2d(rows, 0, i), at_2d(table, 2, i));
    EXPECT_EQ(at_2d(rows, 1, i), 0);  // another piece's
    EXPECT_EQ(at_2d(rows, 2, i), at_2d(table, 0, i));
    EXPECT_EQ(at_2d(rows, 3, i), 0);
    EXPECT_EQ(at_2d(rows, 4, i), at_2d(table, 2, i));
  }
  const at::Tensor g = random_matrix(5, 4, 2);
  const at::Tensor sums = look_up_gradient(g, ids, 5, 3);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(at_2d(sums, 0, i), at_2d(g, 2, i));
    EXPECT_EQ(at_2d(sums, 1, i), 0);
    EXPECT_EQ(at_2d(sums, 2, i), at_2d(g, 0, i) + at_2d(g, 4, i));
  }
}

TEST(Rows, AddLookedUp) {
  at::Tensor rows = random_matrix(2, 3, 1);
  const at::Tensor before = rows.clone(), table = random_matrix(4, 3, 2);
  add_looked_up(rows, table, std::vector<std::int32_t>{3, 0});
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(at_2d(rows, 0, i), at_2d(before, 0, i) + at_2d(table, 3, i));
    EXPECT_EQ(at_2d(rows, 1, i), at_2d(before, 1, i) + at_2d(table, 0, i));
  }
  EXPECT_DEATH(add_looked_up(rows, table, std::vector<std::int32_t>{4, 0}), "row 4");
  EXPECT_DEATH(add_looked_up(rows, table, std::vector<std::int32_t>{1}), "ids.size");
}

// The sum starts at the first row, in float32 too: the bits are those of this loop.
TEST(Rows, ColumnSumIsInRowOrder) {
  const at::Tensor rows = random_matrix(33, 19, 1).to(at::kFloat);
  const at::Tensor sum = column_sum(rows);
  for (std::int64_t i = 0; i < 19; ++i) {
    float expected = 0;
    for (std::int64_t r = 0; r < 33; ++r) expected += rows.const_data_ptr<float>()[r * 19 + i];
    EXPECT_EQ(sum.const_data_ptr<float>()[i], expected);
  }
  EXPECT_DEATH(column_sum(rows.t()), "contiguous");
}

TEST(Rows, AddResidual) {
  const at::Tensor x = random_matrix(3, 4, 1), branch = random_matrix(3, 4, 2),
                   bias = random_vector(4, 3), mask = random_matrix(3, 4, 4);
  const at::Tensor plain = add_residual(x, branch.clone(), bias, {});
  const at::Tensor masked = add_residual(x, branch.clone(), bias, mask);
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const double in = at_2d(x, r, i), out = at_2d(branch, r, i), b = at_1d(bias, i);
      EXPECT_EQ(at_2d(plain, r, i), (in + out) + b);
      EXPECT_EQ(at_2d(masked, r, i), in + at_2d(mask, r, i) * (out + b));
    }
  }
}

}  // namespace
}  // namespace shardproof
