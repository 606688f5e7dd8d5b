// Embedding and head.
#include "model/ends.h"

#include "model/branch.h"
#include "model/layers.h"
#include "model/rows.h"

namespace shardproof {
namespace {

constexpr int outside = -1;  // not inside a block

Site site(const char* what, const PieceBatch& batch, Pass pass, int sequence = -1) {
  return {what, outside, batch.batch.index, sequence, pass};
}

Site use(const PieceBatch& batch, Pass pass, int sequence) {
  return site("parameter", batch, pass, sequence);
}

}  // namespace

Embedding::Embedding(const GptShape& shape, const PieceTable& table, Seams& seams)
    : seams_(seams),
      token_(piece_indices(table, "embed.weight", shape.tensor_pieces)),
      position_(table.index("pos.weight", 0)),
      sequence_(shape.sequence) {
  for (const int index : token_) {
    const Box& box = table.pieces()[static_cast<std::size_t>(index)].box;
    first_.push_back(box.offsets[0]);
    count_.push_back(box.shape[0]);
  }
}

std::vector<at::Tensor> Embedding::forward(const PieceBatch& batch,
                                           std::vector<at::Tensor>& masks) const {
  const OwnedPieces& owned = seams_.owned();
  Parts parts;
  for (const int s : owned.sequence) {
    auto& of_piece = parts.emplace_back();
    for (const int piece : owned.tensor) {
      const auto v = static_cast<std::size_t>(piece);
      of_piece.push_back(look_up(seams_.parameter(token_[v], use(batch, Pass::forward, s)),
                                 batch.tokens[static_cast<std::size_t>(s)], first_[v]));
    }
  }
  auto x = seams_.tensor_sum(std::move(parts), site("embed", batch, Pass::forward));
  for (std::size_t n = 0; n < owned.residual.size(); ++n) {
    const int s = owned.residual[n];
    add_looked_up(x[n], seams_.parameter(position_, use(batch, Pass::forward, s)),
                  batch.positions[static_cast<std::size_t>(s)]);
    masks.push_back(seams_.dropout_mask(
        batch.batch, s, site("embed.dropout", batch, Pass::forward, s), x[n].scalar_type()));
    if (masks[n].defined()) x[n].mul_(masks[n].view_as(x[n]));
  }
  return x;
}

void Embedding::backward(std::vector<at::Tensor> gradient, const PieceBatch& batch,
                         const std::vector<at::Tensor>& masks, WeightGradients& weights) const {
  const OwnedPieces& owned = seams_.owned();
  for (std::size_t n = 0; n < owned.residual.size(); ++n) {
    const int s = owned.residual[n];
    if (masks[n].defined()) gradient[n] = gradient[n].mul(masks[n].view_as(gradient[n]));
    weights.add(
        position_, s, site("gradient", batch, Pass::backward, s),
        [this, rows = gradient[n], ids = Ids(batch.positions[static_cast<std::size_t>(s)])] {
          return look_up_gradient(rows, ids, 0, sequence_);
        });
  }
  gradient = seams_.sequence_gather(std::move(gradient), site("embed", batch, Pass::backward));
  for (std::size_t n = 0; n < owned.sequence.size(); ++n) {
    const int s = owned.sequence[n];
    for (const int piece : owned.tensor) {
      const auto v = static_cast<std::size_t>(piece);
      weights.add(
          token_[v], s, site("gradient", batch, Pass::backward, s),
          [this, v, rows = gradient[n], ids = Ids(batch.tokens[static_cast<std::size_t>(s)])] {
            return look_up_gradient(rows, ids, first_[v], count_[v]);
          });
    }
  }
}

Head::Head(const GptShape& shape, const PieceTable& table, Seams& seams)
    : seams_(seams),
      norm_weight_(table.index("ln_f.weight", 0)),
      norm_bias_(table.index("ln_f.bias", 0)),
      weight_(
          piece_indices(table, shape.tied ? "embed.weight" : "head.weight", shape.tensor_pieces)),
      weight_use_(shape.tied ? 1 : 0),
      smoothing_{shape.label_smoothing, shape.vocabulary} {
  for (const int index : weight_) {
    first_.push_back(table.pieces()[static_cast<std::size_t>(index)].box.offsets[0]);
  }
}

Site Head::weight_site(const char* what, const PieceBatch& batch, Pass pass, int sequence) const {
  Site at = site(what, batch, pass, sequence);
  at.use = weight_use_;
  return at;
}

std::vector<LossSum> Head::forward(std::vector<at::Tensor> x, const PieceBatch& batch,
                                   HeadSaved& saved) const {
  const OwnedPieces& owned = seams_.owned();
  std::vector<at::Tensor> normalised;
  for (std::size_t n = 0; n < owned.residual.size(); ++n) {
    const Site at_use = use(batch, Pass::forward, owned.residual[n]);
    auto norm = layer_norm(x[n], seams_.parameter(norm_weight_, at_use),
                           seams_.parameter(norm_bias_, at_use));
    normalised.push_back(std::move(norm.out));
    saved.mean.push_back(std::move(norm.mean));
    saved.rstd.push_back(std::move(norm.rstd));
  }
  saved.x = std::move(x);
  saved.input =
      seams_.sequence_gather(std::move(normalised), site("head.in", batch, Pass::forward));
  Parts logits;
  std::vector<Ids> targets;
  std::vector<std::int64_t> first;
  for (const int v : owned.tensor) first.push_back(first_[static_cast<std::size_t>(v)]);
  for (std::size_t n = 0; n < owned.sequence.size(); ++n) {
    const int s = owned.sequence[n];
    targets.emplace_back(batch.targets[static_cast<std::size_t>(s)]);
    auto& of_piece = logits.emplace_back();
    for (const int v : owned.tensor) {
      of_piece.push_back(linear(saved.input[n],
                                seams_.parameter(weight_[static_cast<std::size_t>(v)],
                                                 weight_site("parameter", batch, Pass::forward, s)),
                                {}));
    }
  }
  return cross_entropy(std::move(logits), first, targets, smoothing_, seams_,
                       site("loss", batch, Pass::forward), saved.loss);
}

std::vector<at::Tensor> Head::backward(double seed, const PieceBatch& batch, HeadSaved& saved,
                                       WeightGradients& weights) const {
  const OwnedPieces& owned = seams_.owned();
  Parts input(owned.sequence.size());
  for (std::size_t n = 0; n < owned.sequence.size(); ++n) {
    const int s = owned.sequence[n];
    for (std::size_t m = 0; m < owned.tensor.size(); ++m) {
      const auto v = static_cast<std::size_t>(owned.tensor[m]);
      const at::Tensor logits = cross_entropy_backward(
          std::move(saved.loss.exponentials[n][m]), saved.loss.totals[n], first_[v],
          batch.targets[static_cast<std::size_t>(s)], smoothing_, seed);
      // Before its gradient: the last one of a rank may be summed over ranks at once, and a rank
      // with more pieces would by then have gathered the weight.
      const at::Tensor weight =
          seams_.parameter(weight_[v], weight_site("parameter", batch, Pass::backward, s));
      weights.add(weight_[v], s, weight_site("gradient", batch, Pass::backward, s),
                  [logits, x = saved.input[n]] { return linear_weight_gradient(logits, x); });
      input[n].push_back(linear_input_gradient(logits, weight));
    }
  }
  auto sums = seams_.tensor_sum(std::move(input), site("head.in", batch, Pass::backward));
  std::vector<at::Tensor> x;
  for (std::size_t n = 0; n < owned.residual.size(); ++n) {
    const int s = owned.residual[n];
    const Site at_use = use(batch, Pass::backward, s);
    auto norm = layer_norm_backward(sums[n], saved.x[n], saved.mean[n], saved.rstd[n],
                                    seams_.parameter(norm_weight_, at_use),
                                    seams_.parameter(norm_bias_, at_use));
    const Site sink = site("gradient", batch, Pass::backward, s);
    weights.add_ready(norm_weight_, s, sink, std::move(norm.weight));
    weights.add_ready(norm_bias_, s, sink, std::move(norm.bias));
    x.push_back(std::move(norm.input));
  }
  return x;
}

}  // namespace shardproof
