// Thin functions over ATen that check what their bits rest on: contiguous operands.
#include "model/layers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "base/check.h"

namespace shardproof {
namespace {

constexpr double epsilon = 1e-5;  // added to the variance

void check_operand(const at::Tensor& t, int dims) {
  SP_CHECK_EQ(t.dim(), dims);
  SP_CHECK(t.is_contiguous(), "operands enter contiguous: bits are a function of strides");
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  check_operand(x, 2);
  check_operand(weight, 2);
  return bias.defined() ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight) {
  check_operand(gradient, 2);
  check_operand(weight, 2);
  return at::mm(gradient, weight);
}

void add_linear_input_gradient(at::Tensor& sum, const at::Tensor& gradient,
                               const at::Tensor& weight) {
  check_operand(gradient, 2);
  check_operand(weight, 2);
  sum.addmm_(gradient, weight);
}

at::Tensor linear_weight_gradient(const at::Tensor& gradient, const at::Tensor& x) {
  check_operand(gradient, 2);
  check_operand(x, 2);
  return at::mm(gradient.t(), x);
}

Normalized layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  check_operand(x, 2);
  auto [out, mean, rstd] = at::native_layer_norm(x, {x.size(1)}, weight, bias, epsilon);
  return {out, mean, rstd};
}

NormGradients layer_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                  const at::Tensor& mean, const at::Tensor& rstd,
                                  const at::Tensor& weight, const at::Tensor& bias) {
  check_operand(gradient, 2);
  check_operand(x, 2);
  auto [input, w, b] = at::native_layer_norm_backward(gradient, x, {x.size(1)}, mean, rstd, weight,
                                                      bias, {true, true, true});
  return {input, w, b};
}

at::Tensor gelu(const at::Tensor& x) {
  check_operand(x, 2);
  return at::gelu(x);
}

at::Tensor gelu_backward(const at::Tensor& gradient, const at::Tensor& x) {
  check_operand(gradient, 2);
  check_operand(x, 2);
  return at::gelu_backward(gradient, x);
}

}  // namespace shardproof
