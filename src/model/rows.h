// rows: the model's own loops over rows of a contiguous [rows, width] matrix: look-ups, sums and
// residual additions whose order of additions is plain: ascending rows. Only copies, +, -, x and /
// run here, so a bit never depends on how a compiler vectorises.
// dtypes: float32 and float64. Preconditions (SP_CHECK): contiguous CPU tensors of one dtype.
// Thread rule: pure.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace shardproof {

using Ids = std::span<const std::int32_t>;

// Row r is table[ids[r] - first], or zeros where that is outside the table (another piece's row).
at::Tensor look_up(const at::Tensor& table, Ids ids, std::int64_t first);
// rows[r] += table[ids[r]]. Precondition: every id is a row of the table.
void add_looked_up(at::Tensor& rows, const at::Tensor& table, Ids ids);
// The gradient of look_up: [count, width], row i the sum of gradient[r] with ids[r] - first = i.
at::Tensor look_up_gradient(const at::Tensor& gradient, Ids ids, std::int64_t first,
                            std::int64_t count);

at::Tensor column_sum(const at::Tensor& rows);

// (x + branch) + bias without a mask, else x + mask x (branch + bias). Overwrites and returns
// `branch`.
at::Tensor add_residual(const at::Tensor& x, at::Tensor branch, const at::Tensor& bias,
                        const at::Tensor& mask);

}  // namespace shardproof
