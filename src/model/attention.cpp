// Blocks through the CPU flash attention kernel, and their merging.
#include "model/attention.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

#include "base/check.h"
#include "model/layers.h"

namespace shardproof {
namespace {

// Far below any score, and finite: exp(masked - anything real) is exactly 0, and no NaN can arise.
constexpr double masked = -1e30;

// [rows, length, heads, width] as the kernel's [rows, heads, length, width].
at::Tensor by_head(const at::Tensor& t) {
  SP_CHECK_EQ(t.dim(), 4);
  SP_CHECK(t.is_contiguous(), "operands enter contiguous: bits are a function of strides");
  return on_cache_line(t).transpose(1, 2);
}

at::Tensor by_row(const at::Tensor& t) {
  return t.transpose(1, 2).contiguous();
}

std::optional<at::Tensor> mask_of(const BlockMasks& masks, std::size_t i, int j) {
  if (masks.empty()) return std::nullopt;
  return masks[i][static_cast<std::size_t>(j)];
}

struct BlockResult {
  at::Tensor out;      // [rows, length, heads, width]
  at::Tensor log_sum;  // [rows, length, heads]
};

// Merges the blocks of one query piece. blocks[j] for j <= i; total S leaf positions.
BlockResult merge(std::vector<BlockResult> blocks, std::size_t leaves) {
  at::Tensor most = blocks[0].log_sum;
  for (std::size_t j = 1; j < blocks.size(); ++j) most = at::maximum(most, blocks[j].log_sum);
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> terms(leaves);
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    weights.push_back(blocks[j].log_sum.sub(most).exp_());
    terms[j] = weights[j].clone();
  }
  const at::Tensor total = canonical_sum(terms);
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    terms[j] = blocks[j].out.mul_(weights[j].div_(total).unsqueeze(-1));
  }
  return {canonical_sum(terms), most.add(total.log())};
}

}  // namespace

void attention(const std::vector<int>& owned, const BlockMasks& masks, AttentionSaved& saved) {
  saved.out.clear();
  saved.log_sum.clear();
  for (std::size_t n = 0; n < owned.size(); ++n) {
    const int i = owned[n];
    const at::Tensor query = by_head(saved.query[n]);
    std::vector<BlockResult> blocks;
    for (int j = 0; j <= i; ++j) {
      const KeyValue& key = saved.keys[static_cast<std::size_t>(j)];
      const auto mask = mask_of(masks, n, j);
      auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
          query, by_head(key.key), by_head(key.value), 0.0, i == j && !mask, mask);
      blocks.push_back({by_row(out), by_row(log_sum)});
    }
    // One block needs no merging: its weight is exp(0) / exp(0), exactly 1.
    BlockResult merged =
        blocks.size() == 1 ? std::move(blocks[0]) : merge(std::move(blocks), saved.keys.size());
    saved.out.push_back(std::move(merged.out));
    saved.log_sum.push_back(merged.log_sum.transpose(1, 2));
  }
}

AttentionGradients attention_backward(const std::vector<at::Tensor>& gradient,
                                      const std::vector<int>& owned, const BlockMasks& masks,
                                      const AttentionSaved& saved) {
  AttentionGradients result;
  for (std::size_t n = 0; n < owned.size(); ++n) {
    const int i = owned[n];
    std::vector<at::Tensor> terms(saved.keys.size());
    std::vector<KeyValue> partial(saved.keys.size());
    for (int j = 0; j <= i; ++j) {
      const auto at_j = static_cast<std::size_t>(j);
      const KeyValue& key = saved.keys[at_j];
      const auto mask = mask_of(masks, n, j);
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          by_head(gradient[n]), by_head(saved.query[n]), by_head(key.key), by_head(key.value),
          by_head(saved.out[n]), saved.log_sum[n], 0.0, i == j && !mask, mask);
      terms[at_j] = by_row(dq);
      partial[at_j] = {by_row(dk), by_row(dv)};
    }
    result.query.push_back(canonical_sum(terms));
    result.partial.push_back(std::move(partial));
  }
  return result;
}

BlockMasks document_masks(const MicroBatch& batch, const std::vector<int>& owned, int pieces,
                          at::ScalarType dtype) {
  SP_CHECK_EQ(batch.documents.size(), batch.tokens.size());
  const std::int64_t length = batch.length / pieces;
  BlockMasks masks;
  for (const int i : owned) {
    auto& of_query = masks.emplace_back(static_cast<std::size_t>(pieces));
    for (int j = 0; j <= i; ++j) {
      at::Tensor mask = at::empty({batch.rows, 1, length, length}, at::TensorOptions(dtype));
      AT_DISPATCH_FLOATING_TYPES(dtype, "document_masks", [&] {
        auto* out = mask.mutable_data_ptr<scalar_t>();
        for (std::int64_t row = 0; row < batch.rows; ++row) {
          const std::int32_t* documents = batch.documents.data() + row * batch.length;
          for (std::int64_t q = i * length; q < (i + 1) * length; ++q) {
            for (std::int64_t k = j * length; k < (j + 1) * length; ++k) {
              const bool visible = k <= q && documents[k] == documents[q];
              *out++ = static_cast<scalar_t>(visible ? 0 : masked);
            }
          }
        }
      });
      of_query[static_cast<std::size_t>(j)] = std::move(mask);
    }
  }
  return masks;
}

}  // namespace shardproof
