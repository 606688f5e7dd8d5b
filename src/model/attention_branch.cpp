// The products of the attention branch: q, k, v, blocks, projection.
#include <fmt/format.h>

#include "model/branch.h"
#include "model/layers.h"
#include "model/rows.h"

namespace shardproof {
namespace {

// [rows x length, heads x width] <-> [rows, length, heads, width], without a copy.
at::Tensor as_heads(const at::Tensor& flat, const PieceBatch& batch, std::int64_t head_width) {
  return flat.view({batch.rows, batch.length, flat.size(1) / head_width, head_width});
}

at::Tensor as_matrix(const at::Tensor& heads, const PieceBatch& batch) {
  return heads.view({batch.rows * batch.length, heads.size(2) * heads.size(3)});
}

}  // namespace

AttentionBranch::AttentionBranch(const GptShape& shape, const PieceTable& table, Seams& seams,
                                 int layer)
    : Branch(table, seams, layer, fmt::format("blocks.{}.ln1", layer),
             fmt::format("blocks.{}.attn.proj.bias", layer),
             {"ln1", "attn.in", "attn.proj", "attn.dropout"}),
      head_width_(shape.width / shape.heads) {
  const auto indices = [&](const char* name) {
    return piece_indices(table, fmt::format("blocks.{}.attn.{}", layer, name), shape.tensor_pieces);
  };
  query_ = {indices("q.weight"), indices("q.bias")};
  key_ = {indices("k.weight"), indices("k.bias")};
  value_ = {indices("v.weight"), indices("v.bias")};
  out_weight_ = indices("proj.weight");
}

at::Tensor AttentionBranch::project(const Projection& projection, std::size_t v, std::size_t s,
                                    const PieceBatch& batch, Pass pass,
                                    const BranchSaved& saved) const {
  const int sequence = seams_.owned().sequence[s];
  const auto piece = static_cast<std::size_t>(seams_.owned().tensor[v]);
  return as_heads(linear(saved.input[s], parameter(projection.weight[piece], sequence, batch, pass),
                         parameter(projection.bias[piece], sequence, batch, pass)),
                  batch, head_width_);
}

Parts AttentionBranch::products(const PieceBatch& batch, Pass pass, BranchSaved& saved) const {
  const OwnedPieces& owned = seams_.owned();
  Parts out(owned.sequence.size());
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    AttentionSaved& attention_saved = saved.attention.emplace_back();
    std::vector<KeyValue> mine;
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      attention_saved.query.push_back(project(query_, v, s, batch, pass, saved));
      mine.push_back(
          {project(key_, v, s, batch, pass, saved), project(value_, v, s, batch, pass, saved)});
    }
    attention_saved.keys =
        seams_.exchange_keys(mine, owned.tensor[v], site("attn.keys", batch, pass));
    attention(owned.sequence, batch.masks, attention_saved);
    const int weight = out_weight_[static_cast<std::size_t>(owned.tensor[v])];
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      out[s].push_back(linear(as_matrix(attention_saved.out[s], batch),
                              parameter(weight, owned.sequence[s], batch, pass), {}));
    }
  }
  return out;
}

void AttentionBranch::project_backward(const Projection& projection, std::size_t v, std::size_t s,
                                       const at::Tensor& gradient, const PieceBatch& batch,
                                       const BranchSaved& saved, at::Tensor& sum) const {
  const int sequence = seams_.owned().sequence[s];
  const auto piece = static_cast<std::size_t>(seams_.owned().tensor[v]);
  const at::Tensor flat = as_matrix(gradient, batch);
  const at::Tensor weight = parameter(projection.weight[piece], sequence, batch, Pass::backward);
  if (sum.defined()) {
    add_linear_input_gradient(sum, flat, weight);
  } else {
    sum = linear_input_gradient(flat, weight);
  }
  sink(projection.weight[piece], sequence, linear_weight_gradient(flat, saved.input[s]), batch);
  sink(projection.bias[piece], sequence, column_sum(flat), batch);
}

Parts AttentionBranch::products_backward(const std::vector<at::Tensor>& gradient,
                                         const PieceBatch& batch, BranchSaved& saved) const {
  const OwnedPieces& owned = seams_.owned();
  Parts input(owned.sequence.size());
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    const AttentionSaved& attention_saved = saved.attention[v];
    const int weight = out_weight_[static_cast<std::size_t>(owned.tensor[v])];
    std::vector<at::Tensor> heads;
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      const int sequence = owned.sequence[s];
      heads.push_back(as_heads(
          linear_input_gradient(gradient[s], parameter(weight, sequence, batch, Pass::backward)),
          batch, head_width_));
      sink(weight, sequence,
           linear_weight_gradient(gradient[s], as_matrix(attention_saved.out[s], batch)), batch);
    }
    auto grads = attention_backward(heads, owned.sequence, batch.masks, attention_saved);
    const auto keys = seams_.return_key_gradients(grads.partial, owned.tensor[v],
                                                  site("attn.keys", batch, Pass::backward));
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      at::Tensor sum;  // the fan-out of the input in fixed order: q, k, v
      project_backward(query_, v, s, grads.query[s], batch, saved, sum);
      project_backward(key_, v, s, keys[s].key, batch, saved, sum);
      project_backward(value_, v, s, keys[s].value, batch, saved, sum);
      input[s].push_back(std::move(sum));
    }
  }
  return input;
}

}  // namespace shardproof
