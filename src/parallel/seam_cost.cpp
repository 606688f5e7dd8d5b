// seam_cost: the model's exchanges in the order in which it passes them.
#include "parallel/seam_cost.h"

#include <algorithm>

#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

using Counts = std::vector<std::size_t>;

class Prediction {
 public:
  Prediction(const Layout& layout, const GptShape& shape, int rows, int world_rank,
             CommBackend backend)
      : layout_(layout),
        shape_(shape),
        at_(coordinates(layout, world_rank)),
        backend_(backend),
        tensor_(tensor_owners(layout, shape.tensor_pieces)),
        context_(sequence_owners(layout, shape.sequence_pieces)),
        heads_(attention_tensor_pieces(layout, shape.tensor_pieces, at_.tp)),
        residual_(residual_pieces(layout, shape.sequence_pieces, at_.cp)),
        tokens_(static_cast<std::size_t>(rows * (shape.sequence / shape.sequence_pieces))),
        activation_(tokens_ * static_cast<std::size_t>(shape.width)),
        heads_of_piece_(activation_ / static_cast<std::size_t>(shape.tensor_pieces)) {}

  void forward(const LayerRange& layers) {
    if (layers.first == 0) {
      tensor_sum(activation_);
    } else {
      stage_messages(CallKind::recv);
    }
    for (int layer = layers.first; layer < layers.last; ++layer) {
      sequence_gather();
      attention_forward();
      tensor_sum(activation_);
      sequence_gather();
      tensor_sum(activation_);
    }
    if (layers.last != shape_.layers) return stage_messages(CallKind::send);
    sequence_gather();
    tensor_gather(tokens_);  // the maximum
    all_reduce((shape_.label_smoothing > 0 ? 3 : 2) * tokens_);
  }

  void backward(const LayerRange& layers) {
    if (layers.last == shape_.layers) {
      tensor_sum(activation_);
    } else {
      stage_messages(CallKind::recv);
    }
    for (int layer = layers.first; layer < layers.last; ++layer) {
      sequence_gather();
      tensor_sum(activation_);
      sequence_gather();
      attention_backward();
      tensor_sum(activation_);
    }
    if (layers.first == 0) return sequence_gather();
    stage_messages(CallKind::send);
  }

  SeamCalls calls;

 private:
  std::size_t my_sequence() const { return owned(context_, at_.cp); }
  static std::size_t owned(const canonical::LeafOwners& owners, int rank) {
    return owners.owned[static_cast<std::size_t>(rank)].size();
  }

  // ---- tensor axis; `elements` of one sequence piece ----

  void all_gather(Counts counts) {
    Call call;
    call.kind = CallKind::all_gather;
    call.recv_counts = std::move(counts);
    calls.tensor.push_back(predicted(call, at_.tp, layout_.tp, backend_));
  }

  void append(const std::vector<PredictedCall>& more) {
    calls.tensor.insert(calls.tensor.end(), more.begin(), more.end());
  }

  void all_reduce(std::size_t elements) {
    if (layout_.tp == 1) return;
    append(predicted_all_reduce(tensor_, elements * my_sequence(), at_.tp, backend_));
  }

  Counts residual_counts(std::size_t elements) const {
    Counts counts;
    for (const auto& pieces : residual_) counts.push_back(pieces.size() * elements);
    return counts;
  }

  void tensor_sum(std::size_t elements) {
    if (!layout_.sequence_parallel) return all_reduce(elements);
    append(
        predicted_reduce_scatter(tensor_, residual_counts(elements), Dtype::f32, at_.tp, backend_));
  }

  void sequence_gather() {
    if (layout_.sequence_parallel) all_gather(residual_counts(activation_));
  }

  void tensor_gather(std::size_t elements) {
    if (layout_.tp == 1) return;
    Counts counts;
    for (const auto& owned : tensor_.owned) {
      counts.push_back(owned.size() * my_sequence() * elements);
    }
    all_gather(counts);
  }

  // ---- context axis ----

  void all_to_all(Counts counts) {
    Call call;
    call.kind = CallKind::all_to_all;
    call.send_counts = std::move(counts);
    calls.context.push_back(predicted(call, at_.cp, layout_.cp, backend_));
  }

  bool ulysses() const { return layout_.context_kind == "ulysses"; }

  void attention_forward() {
    if (layout_.cp == 1) return;
    if (ulysses()) {
      to_heads(3);
      to_positions(1);
    } else {
      for (std::size_t v = 0; v < owned(tensor_, at_.tp); ++v) send_keys();
    }
  }

  void attention_backward() {
    if (layout_.cp == 1) return;
    if (ulysses()) {
      to_heads(1);
      to_positions(3);
    } else {
      for (std::size_t v = 0; v < owned(tensor_, at_.tp); ++v) return_keys();
    }
  }

  void to_heads(std::size_t lists) {
    Counts counts;
    for (const auto& heads : heads_) {
      counts.push_back(lists * my_sequence() * heads.size() * heads_of_piece_);
    }
    all_to_all(counts);
  }

  void to_positions(std::size_t lists) {
    const std::size_t heads = heads_[static_cast<std::size_t>(at_.cp)].size();
    Counts counts;
    for (const auto& positions : context_.owned) {
      counts.push_back(lists * positions.size() * heads * heads_of_piece_);
    }
    all_to_all(counts);
  }

  // A key and a value of each own piece for every rank with a query at or after it.
  void send_keys() {
    Counts counts;
    for (const auto& queries : context_.owned) {
      const auto seen =
          std::ranges::count_if(context_.owned[static_cast<std::size_t>(at_.cp)],
                                [&](int key) { return key <= *std::ranges::max_element(queries); });
      counts.push_back(2 * heads_of_piece_ * static_cast<std::size_t>(seen));
    }
    all_to_all(counts);
  }

  // Of each key piece the sums over this rank's subtrees of queries, to the piece's owner.
  void return_keys() {
    Counts counts;
    for (const auto& keys : context_.owned) {
      std::size_t sums = 0;
      for (const Node queries : context_.subtrees(at_.cp)) {
        sums += static_cast<std::size_t>(
            std::ranges::count_if(keys, [&](int key) { return key < queries.hi; }));
      }
      counts.push_back(2 * heads_of_piece_ * sums);
    }
    all_to_all(counts);
  }

  // ---- pipeline axis ----

  void stage_messages(CallKind kind) {
    Call call;
    call.kind = kind;
    call.count = activation_;
    for (std::size_t n = 0; n < residual_[static_cast<std::size_t>(at_.tp)].size(); ++n) {
      calls.pipeline.push_back(predicted(call, at_.pp, layout_.pp, backend_));
    }
  }

  const Layout& layout_;
  const GptShape& shape_;
  const Coordinates at_;
  const CommBackend backend_;
  const canonical::LeafOwners tensor_, context_;
  const std::vector<std::vector<int>> heads_;     // by cp rank, of this tp rank
  const std::vector<std::vector<int>> residual_;  // by tp rank
  const std::size_t tokens_;                      // of one sequence piece
  const std::size_t activation_;                  // elements of one sequence piece
  const std::size_t heads_of_piece_;  // elements of one sequence piece and one tensor piece
};

}  // namespace

SeamCalls predicted_forward(const Layout& layout, const GptShape& shape, const LayerRange& layers,
                            int rows, int world_rank, CommBackend backend) {
  Prediction prediction(layout, shape, rows, world_rank, backend);
  prediction.forward(layers);
  return std::move(prediction.calls);
}

SeamCalls predicted_backward(const Layout& layout, const GptShape& shape, const LayerRange& layers,
                             int rows, int world_rank, CommBackend backend) {
  Prediction prediction(layout, shape, rows, world_rank, backend);
  prediction.backward(layers);
  return std::move(prediction.calls);
}

}  // namespace shardproof
