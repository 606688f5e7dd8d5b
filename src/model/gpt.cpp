// The model composed: enter, blocks, leave; micro-batches in flight.
#include "model/gpt.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/check.h"
#include "model/branch.h"
#include "model/ends.h"

namespace shardproof {
namespace {

struct Layer {
  AttentionBranch attention;
  MlpBranch mlp;
};

struct LayerSaved {
  BranchSaved attention;
  BranchSaved mlp;
  std::vector<at::Tensor> x;  // the layer's input, kept alone where it is recomputed
};

// One micro-batch between its forward and the end of its backward.
struct Flight {
  PieceBatch batch;
  WeightGradients weights;
  std::vector<at::Tensor> embedding_masks;
  std::vector<LayerSaved> layers;
  HeadSaved head;
};

}  // namespace

struct Gpt::Impl {
  Impl(const GptShape& s, const PieceTable& table, Seams& seams_in) : shape(s), seams(seams_in) {
    SP_CHECK(problem(shape).empty(), problem(shape));
    const OwnedPieces& owned = seams.owned();
    SP_CHECK(0 <= owned.first_layer && owned.first_layer <= owned.last_layer &&
                 owned.last_layer <= shape.layers,
             fmt::format("layers [{}, {})", owned.first_layer, owned.last_layer));
    if (owned.first_layer == 0) embedding.emplace(shape, table, seams);
    for (int layer = owned.first_layer; layer < owned.last_layer; ++layer) {
      layers.push_back(
          {AttentionBranch(shape, table, seams, layer), MlpBranch(shape, table, seams, layer)});
    }
    if (owned.last_layer == shape.layers) head.emplace(shape, table, seams);
  }

  // The flight leaves the model; its address stays (leaves that are kept refer to the batch).
  std::map<int, Flight>::node_type take(int micro_batch) {
    auto node = flights.extract(micro_batch);
    SP_CHECK(!node.empty(), fmt::format("micro-batch {} is not in flight", micro_batch));
    return node;
  }

  int index(std::size_t n) const { return seams.owned().first_layer + static_cast<int>(n); }

  std::vector<at::Tensor> enter(Flight& flight);
  std::vector<LossLeaf> leave(std::vector<at::Tensor> x, Flight& flight);
  void backward(double seed, Flight& flight);
  std::vector<at::Tensor> enter_backward(double seed, Flight& flight);
  void leave_backward(std::vector<at::Tensor> gradient, Flight& flight);
  std::vector<at::Tensor> receive(const Flight& flight, Pass pass);
  void send(const std::vector<at::Tensor>& x, const Flight& flight, Pass pass);

  std::vector<at::Tensor> layer_forward(std::size_t n, std::vector<at::Tensor> x,
                                        const PieceBatch& batch, Pass pass, LayerSaved& saved);

  const GptShape shape;
  Seams& seams;
  std::optional<Embedding> embedding;
  std::vector<Layer> layers;
  std::optional<Head> head;
  std::map<int, Flight> flights;
};

std::vector<at::Tensor> Gpt::Impl::receive(const Flight& flight, Pass pass) {
  std::vector<at::Tensor> x;
  for (const int s : seams.owned().residual) {
    const Site site{"stage", -1, flight.batch.batch.index, s, pass};
    x.push_back(seams.stage_receive({flight.batch.rows * flight.batch.length, shape.width}, site));
  }
  return x;
}

void Gpt::Impl::send(const std::vector<at::Tensor>& x, const Flight& flight, Pass pass) {
  const auto& residual = seams.owned().residual;
  for (std::size_t n = 0; n < residual.size(); ++n) {
    seams.stage_send(x[n], Site{"stage", -1, flight.batch.batch.index, residual[n], pass});
  }
}

std::vector<at::Tensor> Gpt::Impl::enter(Flight& flight) {
  auto x = embedding ? embedding->forward(flight.batch, flight.embedding_masks)
                     : receive(flight, Pass::forward);
  if (shape.packed) {
    flight.batch.masks = document_masks(flight.batch.batch, seams.attention_pieces().sequence,
                                        shape.sequence_pieces, x.at(0).scalar_type());
  }
  return x;
}

std::vector<LossLeaf> Gpt::Impl::leave(std::vector<at::Tensor> x, Flight& flight) {
  if (!head) {
    send(x, flight, Pass::forward);
    return {};
  }
  const auto sums = head->forward(std::move(x), flight.batch, flight.head);
  std::vector<LossLeaf> leaves;
  for (std::size_t n = 0; n < sums.size(); ++n) {
    leaves.push_back(
        {flight.batch.batch.index, seams.owned().sequence[n], sums[n].sum, sums[n].count});
  }
  return leaves;
}

std::vector<at::Tensor> Gpt::Impl::enter_backward(double seed, Flight& flight) {
  return head ? head->backward(seed, flight.batch, flight.head, flight.weights)
              : receive(flight, Pass::backward);
}

void Gpt::Impl::leave_backward(std::vector<at::Tensor> gradient, Flight& flight) {
  if (embedding) {
    embedding->backward(std::move(gradient), flight.batch, flight.embedding_masks, flight.weights);
  } else {
    send(gradient, flight, Pass::backward);
  }
}

std::vector<at::Tensor> Gpt::Impl::layer_forward(std::size_t n, std::vector<at::Tensor> x,
                                                 const PieceBatch& batch, Pass pass,
                                                 LayerSaved& saved) {
  x = layers[n].attention.forward(std::move(x), batch, pass, saved.attention);
  return layers[n].mlp.forward(std::move(x), batch, pass, saved.mlp);
}

void Gpt::Impl::backward(double seed, Flight& flight) {
  auto gradient = enter_backward(seed, flight);
  for (std::size_t n = layers.size(); n-- > 0;) {
    LayerSaved saved = std::move(flight.layers[n]);  // freed layer by layer
    if (!saved.x.empty()) layer_forward(n, saved.x, flight.batch, Pass::recompute, saved);
    gradient = layers[n].mlp.backward(std::move(gradient), flight.batch, saved.mlp, flight.weights);
    gradient = layers[n].attention.backward(std::move(gradient), flight.batch, saved.attention,
                                            flight.weights);
  }
  leave_backward(std::move(gradient), flight);
}

Gpt::Gpt(const GptShape& shape, const PieceTable& table, Seams& seams)
    : impl_(std::make_unique<Impl>(shape, table, seams)) {}
Gpt::~Gpt() = default;

std::vector<LossLeaf> Gpt::forward(const MicroBatch& batch) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  Impl& model = *impl_;
  SP_CHECK(!model.flights.contains(batch.index),
           fmt::format("micro-batch {} is already in flight", batch.index));
  Flight flight{cut_batch(batch, model.shape), WeightGradients(model.seams), {}, {}, {}};
  auto x = model.enter(flight);
  flight.layers.resize(model.layers.size());
  for (std::size_t n = 0; n < model.layers.size(); ++n) {
    LayerSaved& saved = flight.layers[n];
    const bool recompute = model.seams.recompute(model.index(n));
    if (recompute) saved.x = x;
    x = model.layer_forward(n, std::move(x), flight.batch, Pass::forward, saved);
    if (recompute) saved = {{}, {}, std::move(saved.x)};
  }
  auto leaves = model.leave(std::move(x), flight);
  model.flights.emplace(batch.index, std::move(flight));
  return leaves;
}

void Gpt::backward(int micro_batch, double seed) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto node = impl_->take(micro_batch);
  SP_CHECK(!node.mapped().weights.deferred(), "a second backward of one micro-batch");
  impl_->backward(seed, node.mapped());
}

void Gpt::backward_input(int micro_batch, double seed) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto node = impl_->take(micro_batch);
  Flight& flight = node.mapped();
  SP_CHECK(!flight.weights.deferred(), "a second backward of one micro-batch");
  flight.weights.defer();
  impl_->backward(seed, flight);
  // What is kept holds its own operands.
  flight.head = {};
  flight.layers.clear();
  flight.embedding_masks.clear();
  flight.batch.masks = {};
  impl_->flights.insert(std::move(node));
}

void Gpt::backward_weight(int micro_batch) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto node = impl_->take(micro_batch);
  SP_CHECK(node.mapped().weights.deferred(), "weight gradients before those of the input");
  node.mapped().weights.hand_over();
}

}  // namespace shardproof
