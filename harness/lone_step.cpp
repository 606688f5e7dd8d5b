// lone_step: forward and backward of each micro-batch in turn; gradients added in that order.
#include "harness/lone_step.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "model/gpt.h"
#include "train/program.h"
#include "train/sections.h"

namespace shardproof {
namespace {

std::vector<MicroBatch> batches_of(const Config& config, std::int64_t step) {
  LoaderConfig options = loader_of(config);
  options.workers = 0;
  std::vector<int> all(static_cast<std::size_t>(options.micro_batches));
  std::iota(all.begin(), all.end(), 0);
  const auto dataset = open_dataset(dataset_of(config), config.model.sequence,
                                    config.model.vocabulary, options.seed);
  Loader loader(dataset, options, all);
  for (std::int64_t i = 0; i < step; ++i) loader.next();
  return loader.next();
}

// The part of a whole tensor that a piece is.
at::Tensor part_of(const at::Tensor& whole, const PieceSpec& piece) {
  if (piece.dim < 0) return whole;
  const auto dim = static_cast<std::size_t>(piece.dim);
  return whole.narrow(piece.dim, piece.box.offsets[dim], piece.box.shape[dim]);
}

std::vector<at::Tensor> parameters_of(const PieceTable& table, const Weights& weights,
                                      at::ScalarType dtype) {
  std::vector<at::Tensor> out;
  for (const PieceSpec& piece : table.pieces()) {
    const auto found = weights.find(piece.name);
    if (found == weights.end() ||
        static_cast<std::int64_t>(found->second.size()) != element_count(piece.global_shape)) {
      throw Error(ErrorKind::corrupt, "weights " + piece.name,
                  "are missing or of another size than the model's");
    }
    at::Tensor whole = at::empty(piece.global_shape, at::TensorOptions(at::kFloat));
    std::copy(found->second.begin(), found->second.end(), whole.mutable_data_ptr<float>());
    out.push_back(part_of(whole, piece).to(dtype).contiguous());
  }
  return out;
}

std::map<std::string, std::vector<double>> whole_gradients(const PieceTable& table,
                                                           const std::vector<at::Tensor>& sums) {
  std::map<std::string, at::Tensor> whole;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const PieceSpec& piece = table.pieces()[i];
    SP_CHECK(sums[i].defined(), "a parameter without a gradient");
    at::Tensor& target = whole[piece.name];
    if (!target.defined()) target = at::empty(piece.global_shape, at::TensorOptions(at::kDouble));
    part_of(target, piece).copy_(sums[i]);
  }
  std::map<std::string, std::vector<double>> out;
  for (const auto& [name, tensor] : whole) {
    const auto* data = tensor.const_data_ptr<double>();
    out[name].assign(data, data + tensor.numel());
  }
  return out;
}

}  // namespace

double LoneStep::grad_norm() const {
  long double squares = 0;
  for (const auto& [name, values] : gradients) {
    for (const double g : values) squares += static_cast<long double>(g) * g;
  }
  return static_cast<double>(std::sqrt(squares));
}

Config whole_config(const Config& config) {
  Config out = config;
  out.numerics.reduction = "native";
  out.run.layout = "dp1";
  return out;
}

PieceTable whole_table(const Config& config) {
  return PieceTable(gpt_pieces(shape_of(whole_config(config))));
}

Weights initial_weights(const Config& config) {
  const GptShape shape = shape_of(whole_config(config));
  Weights out;
  for (const PieceSpec& piece : gpt_pieces(shape)) {
    std::vector<float>& values = out[piece.name];
    values.resize(static_cast<std::size_t>(piece.elements()));
    initial_values(shape, piece, {0, piece.elements()},
                   static_cast<std::uint64_t>(config.training.seed), values.data());
  }
  return out;
}

LoneStep lone_step(const Config& config, std::int64_t step, const Weights& weights, bool float64,
                   const std::set<int>& leave_out) {
  use_numerics(config.numerics.portable);
  at::set_num_threads(1);
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const GptShape shape = shape_of(config);
  const PieceTable table(gpt_pieces(shape));
  std::vector<at::Tensor> sums(table.pieces().size());
  const auto sink = [&](int piece, int, at::Tensor leaf, const Site&) {
    at::Tensor& sum = sums[static_cast<std::size_t>(piece)];
    if (sum.defined()) {
      sum.add_(leaf);
    } else {
      sum = std::move(leaf);
    }
  };
  LoneSeams seams(shape, parameters_of(table, weights, float64 ? at::kDouble : at::kFloat), sink,
                  static_cast<std::uint64_t>(config.training.seed));
  seams.set_step(step);
  Gpt model(shape, table, seams);
  const std::vector<MicroBatch> batches = batches_of(config, step);
  LoneStep out;
  out.step = step;
  for (const MicroBatch& batch : batches) {
    out.tokens += batch.valid_tokens();
    std::copy_if(batch.sample_ids.begin(), batch.sample_ids.end(), std::back_inserter(out.samples),
                 [](std::int64_t id) { return id >= 0; });
  }
  const double exact = 1.0 / static_cast<double>(out.tokens);
  const double seed = float64 ? exact : static_cast<float>(exact);
  for (const MicroBatch& batch : batches) {
    for (const LossLeaf& leaf : model.forward(batch)) out.loss += leaf.sum * exact;
    std::vector<at::Tensor> kept;
    const bool left_out = leave_out.contains(batch.index);
    if (left_out) kept = std::exchange(sums, std::vector<at::Tensor>(sums.size()));
    model.backward(batch.index, seed);
    if (left_out) sums = std::move(kept);
  }
  out.gradients = whole_gradients(table, sums);
  return out;
}

}  // namespace shardproof
