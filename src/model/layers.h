// layers: linear, layer norm and GELU on contiguous matrices [rows, width], forward and backward as
// plain functions. Products run in ATen on operands of fixed shape, strides and alignment, so their
// bits are a function of the piece alone.
// Thread rule: pure.
#pragma once

#include <ATen/core/Tensor.h>

namespace shardproof {

// The tensor itself where it begins on a cache line, as a fresh one does, else a copy that does.
// Kernels for small products give other bits elsewhere in the line (MKL 2024.2 on an AMD EPYC: in
// 1,888 of 2,880 shapes), and where a piece lies in an arena or a message depends on the layout.
at::Tensor on_cache_line(const at::Tensor& t);

// x [n, in], weight [out, in], bias [out] or undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight);
// sum += gradient x weight: the next term of a fixed-order fan-out.
void add_linear_input_gradient(at::Tensor& sum, const at::Tensor& gradient,
                               const at::Tensor& weight);
at::Tensor linear_weight_gradient(const at::Tensor& gradient, const at::Tensor& x);

struct Normalized {
  at::Tensor out;
  at::Tensor mean;  // kept for the backward
  at::Tensor rstd;
};
Normalized layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

struct NormGradients {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
};
NormGradients layer_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                  const at::Tensor& mean, const at::Tensor& rstd,
                                  const at::Tensor& weight, const at::Tensor& bias);

at::Tensor gelu(const at::Tensor& x);  // exact: x Phi(x)
at::Tensor gelu_backward(const at::Tensor& gradient, const at::Tensor& x);

}  // namespace shardproof
