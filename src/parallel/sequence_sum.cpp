// sequence_sum: leaves, and the two reductions over sequence pieces.
#include "parallel/sequence_sum.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "parallel/flat.h"
#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

bool whole(const PieceSpec& piece) {
  return piece.pieces == 1;
}

// By piece: the subtrees of tree(S) whose leaves arrive on this rank.
std::vector<std::vector<Node>> leaf_nodes(const PlanGroups& groups, const PieceTable& table,
                                          const canonical::LeafOwners& context,
                                          const canonical::LeafOwners& residual) {
  const Coordinates& at = groups.at();
  std::vector<std::vector<Node>> nodes;
  for (const PieceSpec& piece : table.pieces()) {
    nodes.push_back(whole(piece) && groups.layout().sequence_parallel
                        ? residual.subtrees(at.cp * groups.layout().tp + at.tp)
                        : context.subtrees(at.cp));
  }
  return nodes;
}

}  // namespace

SequenceSum::SequenceSum(PlanGroups& groups, const PieceTable& table, int sequence_pieces,
                         std::vector<std::size_t> shares, bool native)
    : groups_(groups),
      table_(table),
      native_(native),
      context_owners_(sequence_owners(groups.layout(), sequence_pieces)),
      residual_owners_(residual_owners(groups.layout(), sequence_pieces)),
      shares_(std::move(shares)),
      share_(share_range(shares_, groups.at().cp)),
      leaves_(table, sequence_pieces, leaf_nodes(groups, table, context_owners_, residual_owners_)),
      // Under sp a unit of whole parameters alone may have fewer leaves here than
      // sum_over_context sends.
      arenas_needed_(std::max(leaves_.arenas(), context_owners_.subtrees(groups.at().cp).size())) {
  if (!groups.layout().sequence_parallel) return;
  for (std::size_t i = 0; i < table.pieces().size(); ++i) {
    if (whole(table.pieces()[i])) whole_places_.push_back(table.range(static_cast<int>(i)));
  }
}

void SequenceSum::take_arenas() {
  while (arenas_.size() < arenas_needed_) {
    arenas_.push_back(flat_empty(table_.elements(), MemoryUse::gradients));
  }
}

void SequenceSum::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient) {
  take_arenas();
  leaves_.leaf(piece_index, sequence_piece, gradient, arenas_);
}

at::Tensor SequenceSum::finish(at::Tensor spare) {
  take_arenas();
  leaves_.finish(arenas_);
  const bool sequence_parallel = groups_.layout().sequence_parallel;
  const at::Tensor whole_sums = sequence_parallel ? sum_whole_parameters() : at::Tensor();
  if (groups_.context().size() == 1) {
    std::swap(spare, arenas_[0]);  // the sum over S already
    if (!arenas_[0].defined()) arenas_.erase(arenas_.begin());
  } else {
    sum_over_context(spare.data_ptr<float>());
  }
  if (sequence_parallel) put_whole_parameters(whole_sums, spare.data_ptr<float>());
  return spare;
}

// Places of whole parameters take part under sp too, with sums that nobody reads: cutting them out
// would cost more than they weigh.
void SequenceSum::sum_over_context(float* out) {
  Communicator& context = groups_.context();
  const std::size_t count = context_owners_.subtrees(context.rank()).size();
  if (native_) {
    add_to_first(count);
    reduce_scatter_v(context, arenas_[0].const_data_ptr(), out, shares_, Dtype::f32, ReduceOp::sum);
    return;
  }
  std::vector<const void*> subtrees;
  for (std::size_t k = 0; k < count; ++k) subtrees.push_back(arenas_[k].const_data_ptr());
  canonical::reduce_scatter(context, context_owners_, subtrees, shares_, Dtype::f32, out);
}

void SequenceSum::add_to_first(std::size_t count) {
  for (std::size_t k = 1; k < count; ++k) {
    canonical::add_into(arenas_[0].data_ptr(), arenas_[k].const_data_ptr(),
                        static_cast<std::size_t>(table_.elements()), Dtype::f32);
  }
}

// The places of parameters that are not cut, one after the other.
at::Tensor SequenceSum::sum_whole_parameters() {
  Communicator& sequence = groups_.sequence();
  std::int64_t count = 0;
  for (const ElementRange place : whole_places_) count += place.size();
  std::vector<at::Tensor> packed;
  std::vector<const void*> subtrees;
  std::size_t held = residual_owners_.subtrees(sequence.rank()).size();
  if (native_) {
    add_to_first(held);
    held = 1;
  }
  for (std::size_t k = 0; k < held; ++k) {
    packed.push_back(at::empty({count}, at::kFloat));
    auto* to = packed.back().data_ptr<float>();
    for (const ElementRange place : whole_places_) {
      to = std::copy_n(arenas_[k].const_data_ptr<float>() + place.lo, place.size(), to);
    }
    subtrees.push_back(packed.back().const_data_ptr());
  }
  at::Tensor sums = at::empty({count}, at::kFloat);
  if (native_) {
    all_reduce(sequence, subtrees[0], sums.data_ptr(), static_cast<std::size_t>(count), Dtype::f32,
               ReduceOp::sum);
  } else {
    canonical::all_reduce(sequence, residual_owners_, subtrees, static_cast<std::size_t>(count),
                          Dtype::f32, sums.data_ptr());
  }
  return sums;
}

void SequenceSum::put_whole_parameters(const at::Tensor& sums, float* out) const {
  const auto* from = sums.const_data_ptr<float>();
  for (const ElementRange place : whole_places_) {
    const ElementRange part = intersect(place, share_);
    if (part.size() > 0) {
      std::copy_n(from + (part.lo - place.lo), part.size(), out + (part.lo - share_.lo));
    }
    from += place.size();
  }
}

void SequenceSum::clear() {
  leaves_.clear();
}

void SequenceSum::release() {
  arenas_.clear();
}

std::int64_t SequenceSum::live_bytes() const {
  return static_cast<std::int64_t>(arenas_.size()) * table_.elements() *
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace shardproof
