// mesh_pieces: balanced bounds, folded for zigzag.
#include "parallel/mesh_pieces.h"

#include "base/piece.h"

namespace shardproof {
namespace {

// In balanced runs.
std::vector<std::vector<int>> deal(const std::vector<int>& pieces, int ranks) {
  const auto bound = [&](int r) {
    return pieces.begin() + share_bound(static_cast<std::int64_t>(pieces.size()), ranks, r);
  };
  std::vector<std::vector<int>> dealt;
  for (int r = 0; r < ranks; ++r) dealt.emplace_back(bound(r), bound(r + 1));
  return dealt;
}

}  // namespace

canonical::LeafOwners micro_batch_owners(const Layout& layout, int micro_batches) {
  canonical::LeafOwners owners{micro_batches, {}};
  for (int rank = 0; rank < layout.dp; ++rank) {
    owners.owned.push_back(owned_micro_batches(layout, micro_batches, rank));
  }
  return owners;
}

canonical::LeafOwners tensor_owners(const Layout& layout, int tensor_pieces) {
  return canonical::LeafOwners::contiguous(tensor_pieces, layout.tp);
}

canonical::LeafOwners sequence_owners(const Layout& layout, int sequence_pieces) {
  if (layout.context_kind != "zigzag") {
    return canonical::LeafOwners::contiguous(sequence_pieces, layout.cp);
  }
  const auto runs = canonical::LeafOwners::contiguous(sequence_pieces, 2 * layout.cp);
  canonical::LeafOwners owners{sequence_pieces, {}};
  for (std::size_t c = 0; c < runs.owned.size() / 2; ++c) {
    std::vector<int> owned = runs.owned[c];
    const std::vector<int>& late = runs.owned[runs.owned.size() - 1 - c];
    owned.insert(owned.end(), late.begin(), late.end());
    owners.owned.push_back(std::move(owned));
  }
  return owners;
}

std::vector<std::vector<int>> attention_tensor_pieces(const Layout& layout, int tensor_pieces,
                                                      int tp_rank) {
  const std::vector<int> mine =
      tensor_owners(layout, tensor_pieces).owned[static_cast<std::size_t>(tp_rank)];
  if (layout.context_kind != "ulysses") {
    return std::vector<std::vector<int>>(static_cast<std::size_t>(layout.cp), mine);
  }
  return deal(mine, layout.cp);
}

std::vector<std::vector<int>> residual_pieces(const Layout& layout, int sequence_pieces,
                                              int cp_rank) {
  const std::vector<int> mine =
      sequence_owners(layout, sequence_pieces).owned[static_cast<std::size_t>(cp_rank)];
  const auto tp = static_cast<std::size_t>(layout.tp);
  if (!layout.sequence_parallel) return std::vector<std::vector<int>>(tp, mine);
  return deal(mine, layout.tp);
}

canonical::LeafOwners residual_owners(const Layout& layout, int sequence_pieces) {
  canonical::LeafOwners owners{sequence_pieces, {}};
  for (int c = 0; c < layout.cp; ++c) {
    for (auto& owned : residual_pieces(layout, sequence_pieces, c)) {
      owners.owned.push_back(std::move(owned));
    }
  }
  return owners;
}

}  // namespace shardproof
