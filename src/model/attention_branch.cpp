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
  std::vector<Parts> operands(3, Parts(owned.sequence.size()));  // query, key, value
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      operands[0][s].push_back(project(query_, v, s, batch, pass, saved));
      operands[1][s].push_back(project(key_, v, s, batch, pass, saved));
      operands[2][s].push_back(project(value_, v, s, batch, pass, saved));
    }
  }
  attend(std::move(operands), batch, pass, saved);
  Parts out(owned.sequence.size());
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    const int weight = out_weight_[static_cast<std::size_t>(owned.tensor[v])];
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      out[s].push_back(linear(as_matrix(saved.mixed[s][v], batch),
                              parameter(weight, owned.sequence[s], batch, pass), {}));
    }
  }
  return out;
}

void AttentionBranch::attend(std::vector<Parts> operands, const PieceBatch& batch, Pass pass,
                             BranchSaved& saved) const {
  const AttentionPieces pieces = seams_.attention_pieces();
  operands = seams_.attention_scatter(std::move(operands), site("attn.heads", batch, pass));
  std::vector<Parts> mixed(1, Parts(pieces.sequence.size()));
  for (std::size_t v = 0; v < pieces.tensor.size(); ++v) {
    AttentionSaved& kept = saved.attention.emplace_back();
    std::vector<KeyValue> mine;
    for (std::size_t s = 0; s < pieces.sequence.size(); ++s) {
      kept.query.push_back(std::move(operands[0][s][v]));
      mine.push_back({std::move(operands[1][s][v]), std::move(operands[2][s][v])});
    }
    kept.keys = seams_.exchange_keys(mine, pieces.tensor[v], site("attn.keys", batch, pass));
    attention(pieces.sequence, batch.masks, kept);
    for (std::size_t s = 0; s < pieces.sequence.size(); ++s) mixed[0][s].push_back(kept.out[s]);
  }
  mixed = seams_.attention_gather(std::move(mixed), site("attn.mixed", batch, pass));
  saved.mixed = std::move(mixed[0]);
}

void AttentionBranch::project_backward(const Projection& projection, std::size_t v, std::size_t s,
                                       const at::Tensor& gradient, const PieceBatch& batch,
                                       const BranchSaved& saved, WeightGradients& weights,
                                       at::Tensor& sum) const {
  const int sequence = seams_.owned().sequence[s];
  const auto piece = static_cast<std::size_t>(seams_.owned().tensor[v]);
  const at::Tensor flat = as_matrix(gradient, batch);
  const at::Tensor weight = parameter(projection.weight[piece], sequence, batch, Pass::backward);
  if (sum.defined()) {
    add_linear_input_gradient(sum, flat, weight);
  } else {
    sum = linear_input_gradient(flat, weight);
  }
  const Site at_use = gradient_site(sequence, batch);
  weights.add(projection.weight[piece], sequence, at_use,
              [flat, input = saved.input[s]] { return linear_weight_gradient(flat, input); });
  weights.add(projection.bias[piece], sequence, at_use, [flat] { return column_sum(flat); });
}

Parts AttentionBranch::products_backward(const std::vector<at::Tensor>& gradient,
                                         const PieceBatch& batch, BranchSaved& saved,
                                         WeightGradients& weights) const {
  const OwnedPieces& owned = seams_.owned();
  Parts mixed(owned.sequence.size());
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    const int weight = out_weight_[static_cast<std::size_t>(owned.tensor[v])];
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      const int sequence = owned.sequence[s];
      mixed[s].push_back(as_heads(
          linear_input_gradient(gradient[s], parameter(weight, sequence, batch, Pass::backward)),
          batch, head_width_));
      weights.add(weight, sequence, gradient_site(sequence, batch),
                  [rows = gradient[s], x = as_matrix(saved.mixed[s][v], batch)] {
                    return linear_weight_gradient(rows, x);
                  });
    }
  }
  const auto operands = attend_backward(std::move(mixed), batch, saved);
  Parts input(owned.sequence.size());
  for (std::size_t v = 0; v < owned.tensor.size(); ++v) {
    for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
      at::Tensor sum;  // the fan-out of the input in fixed order: q, k, v
      project_backward(query_, v, s, operands[0][s][v], batch, saved, weights, sum);
      project_backward(key_, v, s, operands[1][s][v], batch, saved, weights, sum);
      project_backward(value_, v, s, operands[2][s][v], batch, saved, weights, sum);
      input[s].push_back(std::move(sum));
    }
  }
  return input;
}

std::vector<Parts> AttentionBranch::attend_backward(Parts mixed, const PieceBatch& batch,
                                                    const BranchSaved& saved) const {
  const AttentionPieces pieces = seams_.attention_pieces();
  const auto gradient =
      seams_.attention_scatter({std::move(mixed)}, site("attn.mixed", batch, Pass::backward));
  std::vector<Parts> operands(3, Parts(pieces.sequence.size()));
  for (std::size_t v = 0; v < pieces.tensor.size(); ++v) {
    std::vector<at::Tensor> heads;
    for (const auto& of_piece : gradient[0]) heads.push_back(of_piece[v]);
    auto grads = attention_backward(heads, pieces.sequence, batch.masks, saved.attention[v]);
    const auto keys = seams_.return_key_gradients(grads.partial, pieces.tensor[v],
                                                  site("attn.keys", batch, Pass::backward));
    for (std::size_t s = 0; s < pieces.sequence.size(); ++s) {
      operands[0][s].push_back(std::move(grads.query[s]));
      operands[1][s].push_back(keys[s].key);
      operands[2][s].push_back(keys[s].value);
    }
  }
  return seams_.attention_gather(std::move(operands), site("attn.heads", batch, Pass::backward));
}

}  // namespace shardproof
