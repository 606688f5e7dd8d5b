// seams: the named points where a parallel plan may communicate. The model is plain maths on the
// pieces this rank owns and calls a seam wherever values of other pieces are needed; a lone rank's
// seam (LoneSeams) is the canonical tree over its local pieces, without exchange, so one rank is a
// layout and not a second code path. Forward and backward are written out by hand: there is no
// autograd graph, hence no accumulation order but the one the source shows.
// Lists of tensors are indexed by the owned pieces, in ascending piece order. Every tensor handed
// over or returned is contiguous.
// Thread rule: one Seams per rank, called on that rank's thread.
// Not checked here: that all ranks pass the same sites in the same order (the flight recorder and
// later the guard see that).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/batch.h"
#include "model/gpt_shape.h"

namespace shardproof {

enum class Pass { forward, backward, recompute };

// Where in the model a seam is passed: part of messages' identity and of failure reports.
struct Site {
  const char* what = "";  // "attn.proj", "embed", "loss.max", ...
  int layer = -1;         // -1: outside the blocks
  int micro_batch = 0;
  int sequence = -1;  // sequence piece; -1: all owned
  Pass pass = Pass::forward;
  // Which of its uses, where the model uses a parameter twice: 0, or 1 for the head's use of a tied
  // embedding. The leaves of each use have a tree of their own; the sums of the uses are added
  // last.
  int use = 0;
};

struct OwnedPieces {
  std::vector<int> tensor;    // v, ascending
  std::vector<int> sequence;  // s, ascending: products, attention and loss run on these
  // s, ascending: the residual stream, norms and dropout run on these. A subset of `sequence`, and
  // equal to it unless sequence parallelism splits it over the tensor group.
  std::vector<int> residual;
  int first_layer = 0;  // pipeline: layers [first_layer, last_layer)
  int last_layer = 0;
};

// Whose attention runs on this rank, ascending: query pieces, and tensor pieces (whole heads).
struct AttentionPieces {
  std::vector<int> tensor;
  std::vector<int> sequence;
};

// Keys and values (or their gradients) of one sequence piece and one tensor piece.
struct KeyValue {
  at::Tensor key;
  at::Tensor value;
};

// parts[s][v], by owned sequence piece, then owned tensor piece.
using Parts = std::vector<std::vector<at::Tensor>>;

class Seams {
 public:
  virtual ~Seams() = default;
  virtual const OwnedPieces& owned() const = 0;

  // ---- parameters: every use names its piece; ZeRO-3 gathers here. The model keeps no parameter
  // beyond the use ----
  virtual at::Tensor parameter(int piece_index, const Site& site) = 0;
  // GradSink: the gradient of one use (piece, micro-batch, sequence piece) is a leaf of its own, in
  // the piece's shape. The model gives the tensor up.
  virtual void gradient(int piece_index, int sequence_piece, at::Tensor leaf, const Site& site) = 0;

  // ---- tensor axis and sequence parallelism ----
  // The canonical sum over all V pieces: row-parallel outputs and embedding in forward, the fan-out
  // of a column-parallel input in backward. Returned by owned residual piece (an all-reduce, or a
  // reduce-scatter under sequence parallelism). The parts are given up, the result may be
  // overwritten by the caller.
  virtual std::vector<at::Tensor> tensor_sum(Parts parts, const Site& site) = 0;
  // The conjugate: values by residual piece to values by sequence piece (nothing, or an
  // all-gather). Both lists may share tensors: neither side writes to them afterwards.
  virtual std::vector<at::Tensor> sequence_gather(std::vector<at::Tensor> residual,
                                                  const Site& site) = 0;
  // Sum and maximum over all V pieces for every owner of a sequence piece (cross entropy).
  virtual std::vector<at::Tensor> loss_sum(Parts parts, const Site& site) = 0;
  virtual std::vector<at::Tensor> loss_max(Parts parts, const Site& site) = 0;

  // ---- context axis ----
  // The owned pieces, unless attention runs on all sequence pieces of fewer heads (Ulysses).
  virtual AttentionPieces attention_pieces() const = 0;
  // Several values by owned [s][v] (query, key and value) to the same by [s][v] of
  // attention_pieces(); the conjugate returns them. Both are given up, and travel in one exchange.
  virtual std::vector<Parts> attention_scatter(std::vector<Parts> values, const Site& site) = 0;
  virtual std::vector<Parts> attention_gather(std::vector<Parts> values, const Site& site) = 0;
  // Keys and values of every sequence piece 0..S-1 for one tensor piece of attention_pieces();
  // `mine` by its s.
  virtual std::vector<KeyValue> exchange_keys(std::span<const KeyValue> mine, int tensor_piece,
                                              const Site& site) = 0;
  // Gradient partials of blocks (i, j): query piece i of attention_pieces() against key piece j.
  // Returns, for each of its pieces j, the sum over i on tree(S). partial[i][j] is undefined where
  // block (i, j) is not run. The partials are given up.
  virtual std::vector<KeyValue> return_key_gradients(std::span<const std::vector<KeyValue>> partial,
                                                     int tensor_piece, const Site& site) = 0;

  // ---- pipeline axis: the activation (or its gradient) of one sequence piece crosses a stage
  // boundary; called only where a neighbouring stage exists ----
  virtual void stage_send(at::Tensor activation, const Site& site) = 0;
  virtual at::Tensor stage_receive(at::IntArrayRef shape, const Site& site) = 0;

  // ---- expert axis: rows to their experts and back, in global token order ----
  virtual at::Tensor expert_dispatch(at::Tensor rows, std::span<const std::int64_t> counts,
                                     const Site& site) = 0;
  virtual at::Tensor expert_combine(at::Tensor rows, std::span<const std::int64_t> counts,
                                    const Site& site) = 0;

  // ---- randomness: a mask by global index box; scaled by 1/(1-p); undefined when p == 0 ----
  // Shape [rows, piece length, width]; the global index is ((sample row of the step, position),
  // dim).
  virtual at::Tensor dropout_mask(const MicroBatch& batch, int sequence_piece, const Site& site,
                                  at::ScalarType dtype) = 0;
  // True: the block's saved activations are dropped and recomputed in backward.
  virtual bool recompute(int layer) const = 0;
};

// The sum of leaves[i] in tree(n), n = leaves.size(). An undefined tensor is an absent leaf. The
// leaves are given up: the sum lies in one of them.
at::Tensor canonical_sum(std::span<const at::Tensor> leaves);

// The seams of one rank that owns every piece.
class LoneSeams : public Seams {
 public:
  // Parameters are views into `parameters`, by piece index (PieceTable order).
  using Sink =
      std::function<void(int piece_index, int sequence_piece, at::Tensor leaf, const Site& site)>;
  LoneSeams(const GptShape& shape, std::vector<at::Tensor> parameters, Sink sink,
            std::uint64_t seed);

  // The optimizer step that dropout masks are keyed by.
  void set_step(std::int64_t step) { step_ = step; }

  const OwnedPieces& owned() const override { return owned_; }
  at::Tensor parameter(int piece_index, const Site& site) override;
  void gradient(int piece_index, int sequence_piece, at::Tensor leaf, const Site& site) override;
  std::vector<at::Tensor> tensor_sum(Parts parts, const Site& site) override;
  std::vector<at::Tensor> sequence_gather(std::vector<at::Tensor> residual,
                                          const Site& site) override;
  std::vector<at::Tensor> loss_sum(Parts parts, const Site& site) override;
  std::vector<at::Tensor> loss_max(Parts parts, const Site& site) override;
  AttentionPieces attention_pieces() const override;
  std::vector<Parts> attention_scatter(std::vector<Parts> values, const Site& site) override;
  std::vector<Parts> attention_gather(std::vector<Parts> values, const Site& site) override;
  std::vector<KeyValue> exchange_keys(std::span<const KeyValue> mine, int tensor_piece,
                                      const Site& site) override;
  std::vector<KeyValue> return_key_gradients(std::span<const std::vector<KeyValue>> partial,
                                             int tensor_piece, const Site& site) override;
  void stage_send(at::Tensor activation, const Site& site) override;
  at::Tensor stage_receive(at::IntArrayRef shape, const Site& site) override;
  at::Tensor expert_dispatch(at::Tensor rows, std::span<const std::int64_t> counts,
                             const Site& site) override;
  at::Tensor expert_combine(at::Tensor rows, std::span<const std::int64_t> counts,
                            const Site& site) override;
  at::Tensor dropout_mask(const MicroBatch& batch, int sequence_piece, const Site& site,
                          at::ScalarType dtype) override;
  bool recompute(int layer) const override;

 private:
  GptShape shape_;
  OwnedPieces owned_;
  std::vector<at::Tensor> parameters_;
  Sink sink_;
  std::uint64_t seed_;
  std::int64_t step_ = 0;
};

}  // namespace shardproof
