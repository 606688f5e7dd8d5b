// The lone rank: every seam is a local ordered sum, or nothing.
#include "model/seams.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/philox.h"
#include "base/tree.h"

namespace shardproof {
namespace {

// The sum of leaves lo <= i < hi in the canonical order, into the leftmost present leaf. An
// undefined tensor is an absent leaf.
at::Tensor sum_into_leaves(std::span<const at::Tensor> leaves, int lo, int hi) {
  if (hi - lo == 1) return leaves[static_cast<std::size_t>(lo)];
  const int middle = tree_split(lo, hi);
  at::Tensor left = sum_into_leaves(leaves, lo, middle);
  const at::Tensor right = sum_into_leaves(leaves, middle, hi);
  if (!left.defined()) return right;
  return right.defined() ? left.add_(right) : left;
}

}  // namespace

at::Tensor canonical_sum(std::span<const at::Tensor> leaves) {
  SP_CHECK(!leaves.empty(), "a sum of no leaves");
  return sum_into_leaves(leaves, 0, static_cast<int>(leaves.size()));
}

LoneSeams::LoneSeams(const GptShape& shape, std::vector<at::Tensor> parameters, Sink sink,
                     std::uint64_t seed)
    : shape_(shape), parameters_(std::move(parameters)), sink_(std::move(sink)), seed_(seed) {
  SP_CHECK(problem(shape).empty(), problem(shape));
  owned_.tensor.resize(static_cast<std::size_t>(shape.tensor_pieces));
  std::iota(owned_.tensor.begin(), owned_.tensor.end(), 0);
  owned_.sequence.resize(static_cast<std::size_t>(shape.sequence_pieces));
  std::iota(owned_.sequence.begin(), owned_.sequence.end(), 0);
  owned_.residual = owned_.sequence;
  owned_.last_layer = shape.layers;
}

at::Tensor LoneSeams::parameter(int piece_index, const Site&) {
  return parameters_.at(static_cast<std::size_t>(piece_index));
}

void LoneSeams::gradient(int piece_index, int sequence_piece, at::Tensor leaf, const Site& site) {
  sink_(piece_index, sequence_piece, std::move(leaf), site);
}

std::vector<at::Tensor> LoneSeams::tensor_sum(Parts parts, const Site&) {
  std::vector<at::Tensor> sums;
  sums.reserve(parts.size());
  for (const auto& pieces : parts) sums.push_back(canonical_sum(pieces));
  return sums;
}

std::vector<at::Tensor> LoneSeams::sequence_gather(std::vector<at::Tensor> residual, const Site&) {
  return residual;
}

std::vector<at::Tensor> LoneSeams::loss_sum(Parts parts, const Site& site) {
  return tensor_sum(std::move(parts), site);
}

std::vector<at::Tensor> LoneSeams::loss_max(Parts parts, const Site&) {
  std::vector<at::Tensor> maxima;
  for (const auto& pieces : parts) {
    at::Tensor most = pieces[0];
    for (std::size_t v = 1; v < pieces.size(); ++v) most = at::maximum(most, pieces[v]);
    maxima.push_back(most);
  }
  return maxima;
}

AttentionPieces LoneSeams::attention_pieces() const {
  return {owned().tensor, owned().sequence};
}

std::vector<Parts> LoneSeams::attention_scatter(std::vector<Parts> values, const Site&) {
  return values;
}

std::vector<Parts> LoneSeams::attention_gather(std::vector<Parts> values, const Site&) {
  return values;
}

std::vector<KeyValue> LoneSeams::exchange_keys(std::span<const KeyValue> mine, int, const Site&) {
  return {mine.begin(), mine.end()};
}

std::vector<KeyValue> LoneSeams::return_key_gradients(
    std::span<const std::vector<KeyValue>> partial, int, const Site&) {
  const std::size_t pieces = partial.size();
  std::vector<KeyValue> sums(pieces);
  std::vector<at::Tensor> keys(pieces);
  std::vector<at::Tensor> values(pieces);
  for (std::size_t j = 0; j < pieces; ++j) {
    for (std::size_t i = 0; i < pieces; ++i) {
      keys[i] = partial[i][j].key;
      values[i] = partial[i][j].value;
    }
    sums[j] = {canonical_sum(keys), canonical_sum(values)};
  }
  return sums;
}

void LoneSeams::stage_send(at::Tensor, const Site& site) {
  SP_CHECK(false, fmt::format("{}: a lone rank has one pipeline stage", site.what));
}

at::Tensor LoneSeams::stage_receive(at::IntArrayRef, const Site& site) {
  SP_CHECK(false, fmt::format("{}: a lone rank has one pipeline stage", site.what));
}

at::Tensor LoneSeams::expert_dispatch(at::Tensor rows, std::span<const std::int64_t>, const Site&) {
  return rows;
}

at::Tensor LoneSeams::expert_combine(at::Tensor rows, std::span<const std::int64_t>, const Site&) {
  return rows;
}

at::Tensor LoneSeams::dropout_mask(const MicroBatch& batch, int sequence_piece, const Site& site,
                                   at::ScalarType dtype) {
  if (shape_.dropout == 0) return {};
  const std::int64_t length = shape_.sequence / shape_.sequence_pieces;
  const std::int64_t start = length * sequence_piece;
  const std::int64_t width = shape_.width;
  at::Tensor mask = at::empty({batch.rows, length, width}, at::TensorOptions(dtype));
  const std::string stream =
      site.layer < 0 ? std::string(site.what) : fmt::format("blocks.{}.{}", site.layer, site.what);
  const Random random(seed_, Purpose::dropout, stream_id(stream.c_str()),
                      static_cast<std::uint32_t>(step_));
  AT_DISPATCH_FLOATING_TYPES(dtype, "dropout_mask", [&] {
    auto* out = mask.mutable_data_ptr<scalar_t>();
    const auto keep = static_cast<scalar_t>(1 / (1 - shape_.dropout));
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const std::int64_t sample = std::int64_t{batch.index} * batch.rows + row;
      const std::int64_t first = (sample * shape_.sequence + start) * width;
      for (std::int64_t i = 0; i < length * width; ++i) {
        const double draw = random.uniform(static_cast<std::uint64_t>(first + i));
        *out++ = draw < shape_.dropout ? scalar_t{0} : keep;
      }
    }
  });
  return mask;
}

bool LoneSeams::recompute(int) const {
  return false;
}

}  // namespace shardproof
