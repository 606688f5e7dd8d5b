// mesh_pieces: balanced bounds, folded for zigzag.
#include "parallel/mesh_pieces.h"

#include "base/piece.h"

namespace shardproof {

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

std::vector<std::vector<int>> residual_pieces(const Layout& layout, int sequence_pieces,
                                              int cp_rank) {
  const std::vector<int> mine =
      sequence_owners(layout, sequence_pieces).owned[static_cast<std::size_t>(cp_rank)];
  const auto tp = static_cast<std::size_t>(layout.tp);
  if (!layout.sequence_parallel) return std::vector<std::vector<int>>(tp, mine);
  const auto bound = [&](int t) {
    return mine.begin() + share_bound(static_cast<std::int64_t>(mine.size()), layout.tp, t);
  };
  std::vector<std::vector<int>> residual;
  for (int t = 0; t < layout.tp; ++t) residual.emplace_back(bound(t), bound(t + 1));
  return residual;
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
