// gpt_testing: what tests of the model share: parameters drawn from a seed, random micro-batches,
// and one step's loss and gradients, the leaves of a parameter's use met on tree(S) and then
// tree(M), the uses added last.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/batch.h"
#include "base/philox.h"
#include "model/gpt.h"

namespace shardproof::testing {

// One thread per rank, as everywhere in the program.
inline const bool one_thread = (at::set_num_threads(1), true);

// By piece index. float64 holds the float32 values.
inline std::vector<at::Tensor> initial_parameters(const GptShape& shape, const PieceTable& table,
                                                  std::uint64_t seed,
                                                  at::ScalarType dtype = at::kFloat) {
  std::vector<at::Tensor> parameters;
  for (const PieceSpec& piece : table.pieces()) {
    at::Tensor values = at::empty(piece.box.shape, at::TensorOptions(at::kFloat));
    initial_values(shape, piece, {0, piece.elements()}, seed, values.mutable_data_ptr<float>());
    parameters.push_back(values.to(dtype));
  }
  return parameters;
}

// Tokens and targets uniform in the vocabulary, about one target in `one_in` ignored (0: none).
inline MicroBatch random_batch(const GptShape& shape, int index, int rows, std::uint64_t seed,
                               std::uint64_t one_in = 0) {
  const Random random(seed, Purpose::test, 0, static_cast<std::uint32_t>(index));
  MicroBatch batch;
  batch.index = index;
  batch.rows = rows;
  batch.length = shape.sequence;
  const auto vocabulary = static_cast<std::uint64_t>(shape.vocabulary);
  for (int row = 0; row < rows; ++row) {
    batch.sample_ids.push_back(std::int64_t{index} * rows + row);
    for (int t = 0; t < shape.sequence; ++t) {
      const auto at = 3 * static_cast<std::uint64_t>(row * shape.sequence + t);
      const bool ignored = one_in > 0 && random.below(one_in, at + 2) == 0;
      batch.tokens.push_back(static_cast<std::int32_t>(random.below(vocabulary, at)));
      batch.targets.push_back(ignored
                                  ? MicroBatch::ignored
                                  : static_cast<std::int32_t>(random.below(vocabulary, at + 1)));
      batch.positions.push_back(t);
    }
  }
  return batch;
}

// Leaves by (piece index, micro-batch, sequence piece, use).
using Leaves = std::map<std::tuple<int, int, int, int>, at::Tensor>;

struct StepResult {
  double loss_sum = 0;  // in (micro-batch, sequence piece) order
  std::int64_t count = 0;
  Leaves leaves;
  double mean() const { return loss_sum / static_cast<double>(count); }
};

inline std::int64_t valid_tokens(const std::vector<MicroBatch>& batches) {
  std::int64_t count = 0;
  for (const MicroBatch& batch : batches) count += batch.valid_tokens();
  return count;
}

inline void add_losses(const std::vector<LossLeaf>& losses, StepResult& result) {
  for (const LossLeaf& loss : losses) {
    result.loss_sum += loss.sum;
    result.count += loss.count;
  }
}

// A sink that keeps every leaf; a second leaf under one key fails the look-up of the first.
inline LoneSeams::Sink keep_leaves(Leaves& leaves) {
  return [&leaves](int piece, int sequence, at::Tensor leaf, const Site& site) {
    const bool first =
        leaves.emplace(std::tuple(piece, site.micro_batch, sequence, site.use), leaf).second;
    if (!first) throw std::logic_error("a second gradient for one use of a parameter");
  };
}

// Forward and backward of the mean loss over all batches, all forwards first.
inline StepResult run_step(const GptShape& shape, const PieceTable& table, Seams& seams,
                           const std::vector<MicroBatch>& batches) {
  StepResult result;
  Gpt gpt(shape, table, seams);
  for (const MicroBatch& batch : batches) add_losses(gpt.forward(batch), result);
  const double seed = 1.0 / static_cast<double>(valid_tokens(batches));
  for (const MicroBatch& batch : batches) gpt.backward(batch.index, seed);
  return result;
}

// The same on one rank that owns everything, leaves included.
inline StepResult lone_step(const GptShape& shape, const PieceTable& table,
                            const std::vector<at::Tensor>& parameters,
                            const std::vector<MicroBatch>& batches, std::uint64_t seed) {
  Leaves leaves;
  LoneSeams seams(shape, parameters, keep_leaves(leaves), seed);
  StepResult result = run_step(shape, table, seams, batches);
  result.leaves = std::move(leaves);
  return result;
}

// The leaves of one use of a piece met on tree(S), then tree(M).
inline at::Tensor use_gradient(const Leaves& leaves, int piece, int micro_batches,
                               int sequence_pieces, int use) {
  std::vector<at::Tensor> by_batch;
  for (int m = 0; m < micro_batches; ++m) {
    std::vector<at::Tensor> by_sequence;
    for (int s = 0; s < sequence_pieces; ++s) {
      by_sequence.push_back(leaves.at({piece, m, s, use}).clone());
    }
    by_batch.push_back(canonical_sum(by_sequence));
  }
  return canonical_sum(by_batch);
}

// The same over all uses: head + embedding where a tied piece has two.
inline at::Tensor piece_gradient(const Leaves& leaves, int piece, int micro_batches,
                                 int sequence_pieces) {
  const at::Tensor first = use_gradient(leaves, piece, micro_batches, sequence_pieces, 0);
  if (!leaves.contains({piece, 0, 0, 1})) return first;
  return use_gradient(leaves, piece, micro_batches, sequence_pieces, 1).add(first);
}

// The gradient of each whole parameter, by name, put together from its pieces.
inline std::map<std::string, at::Tensor> whole_gradients(const PieceTable& table,
                                                         const Leaves& leaves, int micro_batches,
                                                         int sequence_pieces) {
  std::map<std::string, at::Tensor> whole;
  for (int p = 0; p < static_cast<int>(table.pieces().size()); ++p) {
    const PieceSpec& piece = table.pieces()[static_cast<std::size_t>(p)];
    const at::Tensor sum = piece_gradient(leaves, p, micro_batches, sequence_pieces);
    at::Tensor& target = whole[piece.name];
    if (!target.defined()) target = at::empty(piece.global_shape, sum.options());
    if (piece.dim < 0) {
      target.copy_(sum);
    } else {
      const std::int64_t at = piece.box.offsets[static_cast<std::size_t>(piece.dim)];
      target.narrow(piece.dim, at, sum.size(piece.dim)).copy_(sum);
    }
  }
  return whole;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace shardproof::testing
