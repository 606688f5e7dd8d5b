// Thin functions over ATen that check what their bits rest on: contiguous operands.
#include "model/layers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include <cstdint>

#include "base/check.h"

namespace shardproof {
namespace {

constexpr double epsilon = 1e-5;  // added to the variance

constexpr std::uintptr_t cache_line = 64;  // bytes; what LibTorch's CPU allocator aligns to

void check_operand(const at::Tensor& t, int dims) {
  SP_CHECK_EQ(t.dim(), dims);
  SP_CHECK(t.is_contiguous(), "operands enter contiguous: bits are a function of strides");
}

at::Tensor operand(const at::Tensor& t) {
  check_operand(t, 2);
  return on_cache_line(t);
}

}  // namespace

at::Tensor on_cache_line(const at::Tensor& t) {
  const auto begin = reinterpret_cast<std::uintptr_t>(t.const_data_ptr());
  return begin % cache_line == 0 ? t : t.clone();
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor left = operand(x), right = operand(weight).t();
  return bias.defined() ? at::addmm(bias, left, right) : at::mm(left, right);
}

at::Tensor linear_input_gradient(const at::Tensor& gradient, const at::Tensor& weight) {
  return at::mm(operand(gradient), operand(weight));
}

void add_linear_input_gradient(at::Tensor& sum, const at::Tensor& gradient,
                               const at::Tensor& weight) {
  sum.addmm_(operand(gradient), operand(weight));
}

at::Tensor linear_weight_gradient(const at::Tensor& gradient, const at::Tensor& x) {
  return at::mm(operand(gradient).t(), operand(x));
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
