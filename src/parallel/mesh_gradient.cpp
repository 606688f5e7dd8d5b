// mesh_gradient: shares of the arena, and the three reductions.
#include "parallel/mesh_gradient.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/memory_use.h"
#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

std::vector<std::size_t> as_counts(const std::vector<std::int64_t>& counts) {
  return {counts.begin(), counts.end()};
}

bool whole(const PieceSpec& piece) {
  return piece.pieces == 1;
}

// By piece: the subtrees of tree(S) whose leaves arrive on this rank.
std::vector<std::vector<Node>> leaf_nodes(Mesh& mesh, const PieceTable& table,
                                          const canonical::LeafOwners& context,
                                          const canonical::LeafOwners& residual) {
  const Coordinates& at = mesh.at();
  std::vector<std::vector<Node>> nodes;
  for (const PieceSpec& piece : table.pieces()) {
    nodes.push_back(whole(piece) && mesh.layout().sequence_parallel
                        ? residual.subtrees(at.cp * mesh.layout().tp + at.tp)
                        : context.subtrees(at.cp));
  }
  return nodes;
}

at::Tensor flat(std::int64_t count) {
  const MemoryScope scope(MemoryUse::gradients);
  return at::zeros({count}, at::kFloat);
}

}  // namespace

MeshGradient::MeshGradient(Mesh& mesh, const PieceTable& table, int micro_batches,
                           int sequence_pieces)
    : table_(table),
      data_(mesh.axis(Axis::data)),
      context_(mesh.axis(Axis::context)),
      batch_owners_(canonical::LeafOwners::contiguous(micro_batches, data_.size())),
      context_owners_(sequence_owners(mesh.layout(), sequence_pieces)),
      residual_owners_(residual_owners(mesh.layout(), sequence_pieces)),
      state_shares_(as_counts(table.share_counts(context_.size() * data_.size()))),
      context_share_(
          {table.share(context_.size() * data_.size(), context_.rank() * data_.size()).lo,
           table.share(context_.size() * data_.size(), (context_.rank() + 1) * data_.size() - 1)
               .hi}),
      share_(table.share(context_.size() * data_.size(),
                         context_.rank() * data_.size() + data_.rank())),
      leaves_(table, sequence_pieces, leaf_nodes(mesh, table, context_owners_, residual_owners_)),
      batches_(context_share_.size(), micro_batches) {
  const auto dp = static_cast<std::ptrdiff_t>(data_.size());
  for (int c = 0; c < context_.size(); ++c) {
    const auto first = state_shares_.begin() + c * dp;
    context_shares_.push_back(std::accumulate(first, first + dp, std::size_t{0}));
    if (c == context_.rank()) data_shares_.assign(first, first + dp);
  }
  if (context_.size() == 1) arenas_.push_back(batches_.take());
  while (arenas_.size() < leaves_.arenas()) arenas_.push_back(flat(table.elements()));
  if (this->micro_batches().empty()) no_leaves_ = flat(context_share_.size());
  if (mesh.layout().sequence_parallel) {
    for (std::size_t i = 0; i < table.pieces().size(); ++i) {
      if (whole(table.pieces()[i])) whole_places_.push_back(table.range(static_cast<int>(i)));
    }
    sequence_ = mesh.world().split(mesh.at().dp, mesh.at().cp * mesh.layout().tp + mesh.at().tp,
                                   "sequence", default_deadline(mesh.world()));
  }
}

const std::vector<int>& MeshGradient::micro_batches() const {
  return batch_owners_.owned[static_cast<std::size_t>(data_.rank())];
}

void MeshGradient::clear() {
  leaves_.clear();
  batches_.clear();
}

void MeshGradient::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient) {
  leaves_.leaf(piece_index, sequence_piece, gradient, arenas_);
}

void MeshGradient::end_micro_batch(int micro_batch) {
  leaves_.finish(arenas_);
  const at::Tensor whole_sums = sequence_ ? sum_whole_parameters() : at::Tensor();
  at::Tensor sum = batches_.take();
  if (context_.size() == 1) {
    std::swap(sum, arenas_[0]);  // the sum over S already
  } else {
    sum_over_sequence(sum.data_ptr<float>());
  }
  if (sequence_) put_whole_parameters(whole_sums, sum.data_ptr<float>());
  batches_.add(micro_batch, std::move(sum));
}

// Places of whole parameters take part under sp too, with sums that nobody reads: cutting them out
// would cost more than they weigh.
void MeshGradient::sum_over_sequence(float* out) {
  std::vector<const void*> subtrees;
  for (std::size_t k = 0; k < context_owners_.subtrees(context_.rank()).size(); ++k) {
    subtrees.push_back(arenas_[k].const_data_ptr());
  }
  canonical::reduce_scatter(context_, context_owners_, subtrees, context_shares_, Dtype::f32, out);
}

// The places of parameters that are not cut, one after the other.
at::Tensor MeshGradient::sum_whole_parameters() {
  std::int64_t count = 0;
  for (const ElementRange place : whole_places_) count += place.size();
  std::vector<at::Tensor> packed;
  std::vector<const void*> subtrees;
  for (std::size_t k = 0; k < residual_owners_.subtrees(sequence_->rank()).size(); ++k) {
    packed.push_back(at::empty({count}, at::kFloat));
    auto* to = packed.back().data_ptr<float>();
    for (const ElementRange place : whole_places_) {
      to = std::copy_n(arenas_[k].const_data_ptr<float>() + place.lo, place.size(), to);
    }
    subtrees.push_back(packed.back().const_data_ptr());
  }
  at::Tensor sums = at::empty({count}, at::kFloat);
  canonical::all_reduce(*sequence_, residual_owners_, subtrees, static_cast<std::size_t>(count),
                        Dtype::f32, sums.data_ptr());
  return sums;
}

void MeshGradient::put_whole_parameters(const at::Tensor& sums, float* out) const {
  const auto* from = sums.const_data_ptr<float>();
  for (const ElementRange place : whole_places_) {
    const std::int64_t lo = std::max(place.lo, context_share_.lo);
    const std::int64_t hi = std::min(place.hi, context_share_.hi);
    if (lo < hi) std::copy_n(from + (lo - place.lo), hi - lo, out + (lo - context_share_.lo));
    from += place.size();
  }
}

float* MeshGradient::reduce() {
  std::vector<const void*> subtrees;
  for (const auto& [node, arena] : batches_.subtrees()) subtrees.push_back(arena.const_data_ptr());
  SP_CHECK_EQ(subtrees.size(), batch_owners_.subtrees(data_.rank()).size());
  // In place: the sum of the own share overwrites it in this rank's first subtree.
  const at::Tensor& target = subtrees.empty() ? no_leaves_ : batches_.subtrees().begin()->second;
  float* out = target.data_ptr<float>() + (share_.lo - context_share_.lo);
  canonical::reduce_scatter(data_, batch_owners_, subtrees, data_shares_, Dtype::f32, out);
  return out;
}

std::int64_t MeshGradient::live_bytes() const {
  // With cp 1 the batch tree counts the first arena, which it has made.
  const std::size_t own = arenas_.size() - (context_.size() == 1 ? 1 : 0);
  std::int64_t bytes =
      static_cast<std::int64_t>(own) * table_.elements() * float_bytes + batches_.live_bytes();
  if (no_leaves_.defined()) bytes += static_cast<std::int64_t>(no_leaves_.nbytes());
  return bytes;
}

std::uint64_t MeshGradient::bytes_sent() const {
  std::uint64_t bytes = data_.traffic().bytes_sent + context_.traffic().bytes_sent;
  if (sequence_) bytes += sequence_->traffic().bytes_sent;
  return bytes;
}

}  // namespace shardproof
