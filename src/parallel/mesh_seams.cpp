// mesh_seams: packing for the collectives, and the ordered sums around them.
#include "parallel/mesh_seams.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

std::vector<std::vector<Node>> nodes_of(const canonical::LeafOwners& owners) {
  std::vector<std::vector<Node>> nodes;
  for (int r = 0; r < static_cast<int>(owners.owned.size()); ++r) {
    nodes.push_back(owners.subtrees(r));
  }
  return nodes;
}

// Tensors of one shape, one after the other in a flat buffer.
void append(float*& to, const at::Tensor& values) {
  SP_CHECK(values.is_contiguous() && values.scalar_type() == at::kFloat,
           "only contiguous fp32 travels");
  std::memcpy(to, values.const_data_ptr<float>(), values.nbytes());
  to += values.numel();
}

at::Tensor flat(std::size_t count) {
  return at::empty({static_cast<std::int64_t>(count)}, at::kFloat);
}

// Part n of `flat`, in the shape of the others.
at::Tensor part(const at::Tensor& flat, std::size_t n, at::IntArrayRef shape, std::int64_t size) {
  return flat.narrow(0, static_cast<std::int64_t>(n) * size, size).view(shape);
}

std::vector<at::Tensor> cut(const at::Tensor& flat, std::size_t parts, at::IntArrayRef shape) {
  std::vector<at::Tensor> out;
  const std::int64_t size = parts == 0 ? 0 : flat.numel() / static_cast<std::int64_t>(parts);
  for (std::size_t n = 0; n < parts; ++n) out.push_back(part(flat, n, shape, size));
  return out;
}

// The n-th key and value of a trade.
KeyValue pair_of(const at::Tensor& received, std::size_t n, const at::Tensor& like) {
  return {part(received, 2 * n, like.sizes(), like.numel()),
          part(received, 2 * n + 1, like.sizes(), like.numel())};
}

KeyValue add(const KeyValue& left, const KeyValue& right) {
  return {left.key.add(right.key), left.value.add(right.value)};
}

// Whether any of these queries may look at keys of piece j.
bool look_at(Node queries, int j) {
  return queries.hi > j;
}

bool look_at(const std::vector<int>& queries, int j) {
  return queries.back() >= j;  // ascending
}

std::size_t place_of(int piece, const std::vector<int>& owned) {
  return static_cast<std::size_t>(std::ranges::find(owned, piece) - owned.begin());
}

std::size_t leaves_of(Node node) {
  return static_cast<std::size_t>(node.hi - node.lo);
}

}  // namespace

MeshSeams::MeshSeams(Mesh& mesh, const GptShape& shape, Source source, Sink sink,
                     std::uint64_t seed, const StageChunk& stage)
    : LoneSeams(shape, {}, std::move(sink), seed),
      source_(std::move(source)),
      tensor_(mesh.axis(Axis::tensor)),
      context_(mesh.axis(Axis::context)),
      tensor_owners_(tensor_owners(mesh.layout(), shape.tensor_pieces)),
      context_owners_(sequence_owners(mesh.layout(), shape.sequence_pieces)),
      context_nodes_(nodes_of(context_owners_)),
      residual_(residual_pieces(mesh.layout(), shape.sequence_pieces, mesh.at().cp)),
      sequence_pieces_(shape.sequence_pieces),
      sequence_parallel_(mesh.layout().sequence_parallel),
      stage_(stage.link != nullptr ? stage : StageChunk{nullptr, 0, {0, shape.layers}}),
      owned_{tensor_owners_.owned[static_cast<std::size_t>(mesh.at().tp)],
             context_owners_.owned[static_cast<std::size_t>(mesh.at().cp)],
             residual_[static_cast<std::size_t>(mesh.at().tp)], stage_.layers.first,
             stage_.layers.last} {
  if (mesh.layout().cp == 1 || mesh.layout().context_kind != "ulysses") return;
  ulysses_.emplace(context_, context_owners_.owned,
                   attention_tensor_pieces(mesh.layout(), shape.tensor_pieces, mesh.at().tp));
}

// This rank's subtrees of tree(V), each over all its sequence pieces.
struct MeshSeams::Subtrees {
  std::vector<at::Tensor> sums;
  std::vector<const void*> data;
  std::size_t piece_elements = 0;
  std::vector<std::int64_t> shape;  // of one sequence piece
};

MeshSeams::Subtrees MeshSeams::add_own(const Parts& parts) const {
  Subtrees own;
  const at::Tensor& any = parts.at(0).at(0);
  own.shape = any.sizes().vec();
  own.piece_elements = static_cast<std::size_t>(any.numel());
  for (const Node node : tensor_owners_.subtrees(tensor_.rank())) {
    const std::size_t first = place_of(node.lo, owned_.tensor);
    at::Tensor sum = flat(own.piece_elements * parts.size());
    auto* to = sum.data_ptr<float>();
    // Where a tree splits depends on its size alone: a subtree on its own adds as in the whole.
    for (const auto& of_piece : parts) {
      append(to, canonical_sum(std::span(of_piece).subspan(first, leaves_of(node))));
    }
    own.data.push_back(sum.const_data_ptr());
    own.sums.push_back(std::move(sum));
  }
  return own;
}

std::vector<std::size_t> MeshSeams::residual_counts(std::size_t piece_elements) const {
  std::vector<std::size_t> counts;
  for (const auto& pieces : residual_) counts.push_back(pieces.size() * piece_elements);
  return counts;
}

std::vector<at::Tensor> MeshSeams::tensor_sum(Parts parts, const Site& site) {
  if (!sequence_parallel_) return loss_sum(std::move(parts), site);
  const Subtrees own = add_own(parts);
  const auto counts = residual_counts(own.piece_elements);
  at::Tensor mine = flat(counts[static_cast<std::size_t>(tensor_.rank())]);
  canonical::reduce_scatter(tensor_, tensor_owners_, own.data, counts, Dtype::f32, mine.data_ptr());
  return cut(mine, owned_.residual.size(), own.shape);
}

std::vector<at::Tensor> MeshSeams::loss_sum(Parts parts, const Site& site) {
  if (tensor_.size() == 1) return LoneSeams::tensor_sum(std::move(parts), site);
  const Subtrees own = add_own(parts);
  at::Tensor sums = flat(own.piece_elements * parts.size());
  canonical::all_reduce(tensor_, tensor_owners_, own.data, static_cast<std::size_t>(sums.numel()),
                        Dtype::f32, sums.data_ptr());
  return cut(sums, parts.size(), own.shape);
}

// Every leaf reaches every rank: the maximum is taken in piece order, as a lone rank does.
std::vector<at::Tensor> MeshSeams::loss_max(Parts parts, const Site& site) {
  if (tensor_.size() == 1) return LoneSeams::loss_max(std::move(parts), site);
  const at::Tensor& any = parts.at(0).at(0);
  const std::size_t of_piece = static_cast<std::size_t>(any.numel()) * parts.size();
  std::vector<std::size_t> counts;
  for (const auto& owned : tensor_owners_.owned) counts.push_back(owned.size() * of_piece);
  at::Tensor mine = flat(counts[static_cast<std::size_t>(tensor_.rank())]);
  auto* to = mine.data_ptr<float>();
  for (std::size_t v = 0; v < owned_.tensor.size(); ++v) {
    for (const auto& of_sequence : parts) append(to, of_sequence[v]);
  }
  const auto pieces = static_cast<std::size_t>(tensor_owners_.leaves);
  at::Tensor all = flat(of_piece * pieces);
  all_gather_v(tensor_, mine.data_ptr(), all.data_ptr(), counts, Dtype::f32);
  Parts leaves(parts.size());
  for (std::size_t v = 0; v < pieces; ++v) {  // ranks own ascending runs: v is the order received
    for (std::size_t s = 0; s < parts.size(); ++s) {
      leaves[s].push_back(part(all, v * parts.size() + s, any.sizes(), any.numel()));
    }
  }
  return LoneSeams::loss_max(std::move(leaves), site);
}

std::vector<at::Tensor> MeshSeams::sequence_gather(std::vector<at::Tensor> residual, const Site&) {
  if (!sequence_parallel_) return residual;
  const at::Tensor& any = residual.at(0);
  const auto counts = residual_counts(static_cast<std::size_t>(any.numel()));
  at::Tensor mine = flat(counts[static_cast<std::size_t>(tensor_.rank())]);
  auto* to = mine.data_ptr<float>();
  for (const at::Tensor& piece : residual) append(to, piece);
  at::Tensor all = flat(static_cast<std::size_t>(any.numel()) * owned_.sequence.size());
  all_gather_v(tensor_, mine.data_ptr(), all.data_ptr(), counts, Dtype::f32);
  return cut(all, owned_.sequence.size(), any.sizes());
}

AttentionPieces MeshSeams::attention_pieces() const {
  return ulysses_ ? ulysses_->pieces() : LoneSeams::attention_pieces();
}

std::vector<Parts> MeshSeams::attention_scatter(std::vector<Parts> values, const Site&) {
  return ulysses_ ? ulysses_->scatter(std::move(values)) : std::move(values);
}

std::vector<Parts> MeshSeams::attention_gather(std::vector<Parts> values, const Site&) {
  return ulysses_ ? ulysses_->gather(std::move(values)) : std::move(values);
}

at::Tensor MeshSeams::trade(const std::vector<KeyValue>& pairs,
                            const std::vector<std::size_t>& sends,
                            const std::vector<std::size_t>& receives) {
  const auto pair = static_cast<std::size_t>(2 * pairs.at(0).key.numel());
  std::vector<std::size_t> out_counts, in_counts;
  std::size_t received = 0;
  for (const std::size_t n : sends) out_counts.push_back(n * pair);
  for (const std::size_t n : receives) {
    in_counts.push_back(n * pair);
    received += n * pair;
  }
  at::Tensor out = flat(pairs.size() * pair), in = flat(received);
  auto* to = out.data_ptr<float>();
  for (const KeyValue& each : pairs) {
    append(to, each.key);
    append(to, each.value);
  }
  all_to_all_v(context_, out.data_ptr(), in.data_ptr(), out_counts, in_counts, Dtype::f32);
  return in;
}

std::vector<KeyValue> MeshSeams::exchange_keys(std::span<const KeyValue> mine, int tensor_piece,
                                               const Site& site) {
  if (keys_are_here()) return LoneSeams::exchange_keys(mine, tensor_piece, site);
  const auto& ranks = context_owners_.owned;
  std::vector<std::size_t> sends(ranks.size(), 0), receives(ranks.size(), 0);
  std::vector<KeyValue> out;
  std::vector<int> in;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t n = 0; n < mine.size(); ++n) {
      if (!look_at(ranks[r], owned_.sequence[n])) continue;
      out.push_back(mine[n]);
      ++sends[r];
    }
    for (const int j : ranks[r]) {
      if (!look_at(owned_.sequence, j)) continue;
      in.push_back(j);
      ++receives[r];
    }
  }
  const at::Tensor received = trade(out, sends, receives);
  std::vector<KeyValue> all(static_cast<std::size_t>(sequence_pieces_));
  for (std::size_t n = 0; n < in.size(); ++n) {
    all[static_cast<std::size_t>(in[n])] = pair_of(received, n, mine[0].key);
  }
  return all;
}

// The partials of one subtree of query pieces against key piece j, summed.
KeyValue MeshSeams::add_partials(std::span<const std::vector<KeyValue>> partial, Node queries,
                                 int j) const {
  std::vector<at::Tensor> keys, values;
  const std::size_t first = place_of(queries.lo, owned_.sequence);
  for (const auto& of_query : partial.subspan(first, leaves_of(queries))) {
    keys.push_back(of_query[static_cast<std::size_t>(j)].key);
    values.push_back(of_query[static_cast<std::size_t>(j)].value);
  }
  return {canonical_sum(keys), canonical_sum(values)};
}

std::vector<KeyValue> MeshSeams::return_key_gradients(
    std::span<const std::vector<KeyValue>> partial, int tensor_piece, const Site& site) {
  if (keys_are_here()) return LoneSeams::return_key_gradients(partial, tensor_piece, site);
  const auto& ranks = context_owners_.owned;
  const auto me = static_cast<std::size_t>(context_.rank());
  std::vector<std::size_t> sends(ranks.size(), 0), receives(ranks.size(), 0);
  std::vector<KeyValue> out;
  std::vector<std::pair<std::size_t, Node>> in;  // owned piece, subtree of queries
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const int j : ranks[r]) {
      for (const Node node : context_nodes_[me]) {
        if (!look_at(node, j)) continue;
        out.push_back(add_partials(partial, node, j));
        ++sends[r];
      }
    }
    for (std::size_t n = 0; n < owned_.sequence.size(); ++n) {
      for (const Node node : context_nodes_[r]) {
        if (!look_at(node, owned_.sequence[n])) continue;
        in.emplace_back(n, node);
        ++receives[r];
      }
    }
  }
  const at::Tensor received = trade(out, sends, receives);
  std::vector<std::map<Node, KeyValue>> parts(owned_.sequence.size());
  for (std::size_t n = 0; n < in.size(); ++n) {
    parts[in[n].first][in[n].second] = pair_of(received, n, out[0].key);
  }
  std::vector<KeyValue> sums;
  for (const auto& of_piece : parts) sums.push_back(*tree_sum(of_piece, 0, sequence_pieces_, add));
  return sums;
}

void MeshSeams::stage_send(at::Tensor activation, const Site& site) {
  SP_CHECK(stage_.link != nullptr, "a chunk with no other stage");
  stage_.link->send(std::move(activation), stage_.chunk, site);
}

at::Tensor MeshSeams::stage_receive(at::IntArrayRef shape, const Site& site) {
  SP_CHECK(stage_.link != nullptr, "a chunk with no other stage");
  return stage_.link->receive(shape, stage_.chunk, site);
}

}  // namespace shardproof
