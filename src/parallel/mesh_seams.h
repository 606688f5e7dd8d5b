// mesh_seams: the seams of a rank of a dp x tp (+sp) x cp x pp mesh, of one chunk of its layers:
// values of other tensor pieces come over the tp axis, keys and values of other sequence pieces
// over the cp axis, activations of other layers over the pp axis. Sums are canonical
// (comm/canonical.h): this rank adds the maximal subtrees of its own pieces, the owners of the
// result add those of all ranks, so every value has the bits of a lone rank.
// Keys and values go straight to the ranks whose queries may look at them (one all-to-all;
// causality spares the rest), gradients of keys and values straight back to their owner, which adds
// them in tree(S). Under cp-ulysses the context group trades sequence pieces for tensor pieces
// around attention instead (ulysses.h), and keys stay. All floating-point traffic is fp32. Errors:
// Error of the communicators, unchanged. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/canonical.h"
#include "mesh/mesh.h"
#include "model/seams.h"
#include "parallel/stage_layers.h"
#include "parallel/stage_link.h"
#include "parallel/ulysses.h"

namespace shardproof {

// One of a rank's chunks: its layers, and the way to the stages around them. Without a link the
// chunk is the whole model.
struct StageChunk {
  StageLink* link = nullptr;  // outlives the seams
  int chunk = 0;
  LayerRange layers;
};

class MeshSeams : public LoneSeams {
 public:
  // The values of a piece for one use; only pieces that this chunk holds are asked for.
  using Source = std::function<at::Tensor(int piece_index, const Site& site)>;
  MeshSeams(Mesh& mesh, const GptShape& shape, Source source, Sink sink, std::uint64_t seed,
            const StageChunk& stage = {});

  const OwnedPieces& owned() const override { return owned_; }
  at::Tensor parameter(int piece_index, const Site& site) override {
    return source_(piece_index, site);
  }
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

 private:
  struct Subtrees;
  Subtrees add_own(const Parts& parts) const;
  // All-to-all over cp of keys and values in the order of the ranks; counts are of pairs.
  at::Tensor trade(const std::vector<KeyValue>& pairs, const std::vector<std::size_t>& sends,
                   const std::vector<std::size_t>& receives);
  KeyValue add_partials(std::span<const std::vector<KeyValue>> partial, Node queries, int j) const;
  // Whether attention needs nothing of other context ranks once its operands are here.
  bool keys_are_here() const { return context_.size() == 1 || ulysses_; }
  std::vector<std::size_t> residual_counts(std::size_t piece_elements) const;

  const Source source_;
  Communicator& tensor_;
  Communicator& context_;
  const canonical::LeafOwners tensor_owners_;
  const canonical::LeafOwners context_owners_;
  const std::vector<std::vector<Node>> context_nodes_;  // of tree(S), by context rank
  const std::vector<std::vector<int>> residual_;        // by tensor rank
  const int sequence_pieces_;
  const bool sequence_parallel_;
  const StageChunk stage_;
  OwnedPieces owned_;
  std::optional<Ulysses> ulysses_;
};

}  // namespace shardproof
