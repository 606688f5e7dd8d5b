// Loops over rows; the order of every addition is the order of the loop.
#include "model/rows.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/check.h"

namespace shardproof {
namespace {

void check_matrix(const at::Tensor& t) {
  SP_CHECK_EQ(t.dim(), 2);
  SP_CHECK(t.is_contiguous() && t.is_cpu(), "expected a contiguous CPU matrix");
}

template <typename T>
void add_to(T* __restrict into, const T* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += from[i];
}

}  // namespace

at::Tensor look_up(const at::Tensor& table, Ids ids, std::int64_t first) {
  check_matrix(table);
  const std::int64_t width = table.size(1);
  const std::int64_t count = table.size(0);
  at::Tensor rows = at::empty({static_cast<std::int64_t>(ids.size()), width}, table.options());
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "look_up", [&] {
    const auto* from = table.const_data_ptr<scalar_t>();
    auto* out = rows.mutable_data_ptr<scalar_t>();
    for (const std::int32_t id : ids) {
      const std::int64_t row = id - first;
      if (0 <= row && row < count) {
        std::copy_n(from + row * width, width, out);
      } else {
        std::fill_n(out, width, scalar_t{0});
      }
      out += width;
    }
  });
  return rows;
}

void add_looked_up(at::Tensor& rows, const at::Tensor& table, Ids ids) {
  check_matrix(rows);
  check_matrix(table);
  SP_CHECK_EQ(rows.size(0), static_cast<std::int64_t>(ids.size()));
  SP_CHECK_EQ(rows.size(1), table.size(1));
  const std::int64_t width = table.size(1);
  AT_DISPATCH_FLOATING_TYPES(table.scalar_type(), "add_looked_up", [&] {
    const auto* from = table.const_data_ptr<scalar_t>();
    auto* out = rows.mutable_data_ptr<scalar_t>();
    for (const std::int32_t id : ids) {
      SP_CHECK(0 <= id && id < table.size(0), "row " + std::to_string(id));
      add_to(out, from + id * width, width);
      out += width;
    }
  });
}

at::Tensor look_up_gradient(const at::Tensor& gradient, Ids ids, std::int64_t first,
                            std::int64_t count) {
  check_matrix(gradient);
  SP_CHECK_EQ(gradient.size(0), static_cast<std::int64_t>(ids.size()));
  const std::int64_t width = gradient.size(1);
  at::Tensor sums = at::zeros({count, width}, gradient.options());
  AT_DISPATCH_FLOATING_TYPES(gradient.scalar_type(), "look_up_gradient", [&] {
    const auto* from = gradient.const_data_ptr<scalar_t>();
    auto* out = sums.mutable_data_ptr<scalar_t>();
    for (const std::int32_t id : ids) {
      const std::int64_t row = id - first;
      if (0 <= row && row < count) add_to(out + row * width, from, width);
      from += width;
    }
  });
  return sums;
}

at::Tensor column_sum(const at::Tensor& rows) {
  check_matrix(rows);
  const std::int64_t width = rows.size(1);
  at::Tensor sum = at::zeros({width}, rows.options());
  AT_DISPATCH_FLOATING_TYPES(rows.scalar_type(), "column_sum", [&] {
    const auto* from = rows.const_data_ptr<scalar_t>();
    auto* out = sum.mutable_data_ptr<scalar_t>();
    for (std::int64_t row = 0; row < rows.size(0); ++row) add_to(out, from + row * width, width);
  });
  return sum;
}

at::Tensor add_residual(const at::Tensor& x, at::Tensor branch, const at::Tensor& bias,
                        const at::Tensor& mask) {
  check_matrix(x);
  check_matrix(branch);
  SP_CHECK_EQ(x.numel(), branch.numel());
  const std::int64_t width = x.size(1);
  SP_CHECK_EQ(bias.numel(), width);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "add_residual", [&] {
    const auto* __restrict in = x.const_data_ptr<scalar_t>();
    const auto* __restrict b = bias.const_data_ptr<scalar_t>();
    auto* __restrict out = branch.mutable_data_ptr<scalar_t>();
    const auto* __restrict keep = mask.defined() ? mask.const_data_ptr<scalar_t>() : nullptr;
    for (std::int64_t row = 0; row < x.size(0); ++row) {
      if (keep == nullptr) {
        for (std::int64_t i = 0; i < width; ++i) out[i] = (in[i] + out[i]) + b[i];
      } else {
        for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] + keep[i] * (out[i] + b[i]);
        keep += width;
      }
      in += width;
      out += width;
    }
  });
  return branch;
}

}  // namespace shardproof
