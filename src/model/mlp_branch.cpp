// The products of the MLP branch: up, GELU, down.
#include <fmt/format.h>

#include "model/branch.h"
#include "model/layers.h"
#include "model/rows.h"

namespace shardproof {

MlpBranch::MlpBranch(const GptShape& shape, const PieceTable& table, Seams& seams, int layer)
    : Branch(table, seams, layer, fmt::format("blocks.{}.ln2", layer),
             fmt::format("blocks.{}.mlp.down.bias", layer),
             {"ln2", "mlp.in", "mlp.down", "mlp.dropout"}) {
  const auto indices = [&](const char* name) {
    return piece_indices(table, fmt::format("blocks.{}.mlp.{}", layer, name), shape.tensor_pieces);
  };
  up_weight_ = indices("up.weight");
  up_bias_ = indices("up.bias");
  down_weight_ = indices("down.weight");
}

Parts MlpBranch::products(const PieceBatch& batch, Pass pass, BranchSaved& saved) const {
  const OwnedPieces& owned = seams_.owned();
  Parts out(owned.sequence.size());
  saved.up.resize(owned.sequence.size());
  saved.activated.resize(owned.sequence.size());
  for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
    const int sequence = owned.sequence[s];
    for (const int piece : owned.tensor) {
      const auto v = static_cast<std::size_t>(piece);
      saved.up[s].push_back(linear(saved.input[s], parameter(up_weight_[v], sequence, batch, pass),
                                   parameter(up_bias_[v], sequence, batch, pass)));
      saved.activated[s].push_back(gelu(saved.up[s].back()));
      out[s].push_back(
          linear(saved.activated[s].back(), parameter(down_weight_[v], sequence, batch, pass), {}));
    }
  }
  return out;
}

Parts MlpBranch::products_backward(const std::vector<at::Tensor>& gradient, const PieceBatch& batch,
                                   BranchSaved& saved, WeightGradients& weights) const {
  const OwnedPieces& owned = seams_.owned();
  Parts input(owned.sequence.size());
  for (std::size_t s = 0; s < owned.sequence.size(); ++s) {
    const int sequence = owned.sequence[s];
    for (std::size_t n = 0; n < owned.tensor.size(); ++n) {
      const auto v = static_cast<std::size_t>(owned.tensor[n]);
      const Site at_use = gradient_site(sequence, batch);
      weights.add(down_weight_[v], sequence, at_use,
                  [rows = gradient[s], x = saved.activated[s][n]] {
                    return linear_weight_gradient(rows, x);
                  });
      const at::Tensor activated = linear_input_gradient(
          gradient[s], parameter(down_weight_[v], sequence, batch, Pass::backward));
      const at::Tensor up = gelu_backward(activated, saved.up[s][n]);
      weights.add(up_weight_[v], sequence, at_use,
                  [up, x = saved.input[s]] { return linear_weight_gradient(up, x); });
      weights.add(up_bias_[v], sequence, at_use, [up] { return column_sum(up); });
      input[s].push_back(
          linear_input_gradient(up, parameter(up_weight_[v], sequence, batch, Pass::backward)));
    }
  }
  return input;
}

}  // namespace shardproof
