// What attention and MLP branches share: norm, gather, sum, residual.
#include "model/branch.h"

#include "base/check.h"
#include "model/layers.h"
#include "model/rows.h"

namespace shardproof {

std::vector<int> piece_indices(const PieceTable& table, const std::string& name, int pieces) {
  std::vector<int> indices;
  for (int v = 0; v < pieces; ++v) indices.push_back(table.index(name, v));
  return indices;
}

Branch::Branch(const PieceTable& table, Seams& seams, int layer, const std::string& norm,
               const std::string& out_bias, Sites sites)
    : seams_(seams),
      layer_(layer),
      sites_(sites),
      norm_weight_(table.index(norm + ".weight", 0)),
      norm_bias_(table.index(norm + ".bias", 0)),
      out_bias_(table.index(out_bias, 0)) {}

Site Branch::site(const char* what, const PieceBatch& batch, Pass pass, int sequence) const {
  return {what, layer_, batch.batch.index, sequence, pass};
}

at::Tensor Branch::parameter(int piece_index, int sequence, const PieceBatch& batch,
                             Pass pass) const {
  return seams_.parameter(piece_index, site("parameter", batch, pass, sequence));
}

std::vector<at::Tensor> Branch::forward(std::vector<at::Tensor> x, const PieceBatch& batch,
                                        Pass pass, BranchSaved& saved) const {
  const std::vector<int>& residual = seams_.owned().residual;
  SP_CHECK_EQ(x.size(), residual.size());
  std::vector<at::Tensor> normalised;
  for (std::size_t n = 0; n < residual.size(); ++n) {
    auto norm = layer_norm(x[n], parameter(norm_weight_, residual[n], batch, pass),
                           parameter(norm_bias_, residual[n], batch, pass));
    normalised.push_back(std::move(norm.out));
    saved.mean.push_back(std::move(norm.mean));
    saved.rstd.push_back(std::move(norm.rstd));
    saved.mask.push_back(seams_.dropout_mask(batch.batch, residual[n],
                                             site(sites_.dropout, batch, pass, residual[n]),
                                             x[n].scalar_type()));
  }
  saved.input = seams_.sequence_gather(std::move(normalised), site(sites_.in, batch, pass));
  auto out = seams_.tensor_sum(products(batch, pass, saved), site(sites_.out, batch, pass));
  for (std::size_t n = 0; n < residual.size(); ++n) {
    out[n] =
        add_residual(x[n], out[n], parameter(out_bias_, residual[n], batch, pass), saved.mask[n]);
  }
  saved.x = std::move(x);
  return out;
}

std::vector<at::Tensor> Branch::backward(std::vector<at::Tensor> gradient, const PieceBatch& batch,
                                         BranchSaved& saved, WeightGradients& weights) const {
  const std::vector<int>& residual = seams_.owned().residual;
  std::vector<at::Tensor> branch;
  for (std::size_t n = 0; n < residual.size(); ++n) {
    branch.push_back(saved.mask[n].defined() ? gradient[n].mul(saved.mask[n].view_as(gradient[n]))
                                             : gradient[n]);
    weights.add(out_bias_, residual[n], gradient_site(residual[n], batch),
                [rows = branch[n]] { return column_sum(rows); });
  }
  branch = seams_.sequence_gather(std::move(branch), site(sites_.out, batch, Pass::backward));
  auto input = seams_.tensor_sum(products_backward(branch, batch, saved, weights),
                                 site(sites_.in, batch, Pass::backward));
  std::vector<at::Tensor> result;
  for (std::size_t n = 0; n < residual.size(); ++n) {
    auto norm = layer_norm_backward(input[n], saved.x[n], saved.mean[n], saved.rstd[n],
                                    parameter(norm_weight_, residual[n], batch, Pass::backward),
                                    parameter(norm_bias_, residual[n], batch, Pass::backward));
    const Site at_use = gradient_site(residual[n], batch);
    weights.add_ready(norm_weight_, residual[n], at_use, std::move(norm.weight));
    weights.add_ready(norm_bias_, residual[n], at_use, std::move(norm.bias));
    // Two uses of x: the two terms commute.
    result.push_back(norm.input.add_(gradient[n]));
  }
  return result;
}

}  // namespace shardproof
