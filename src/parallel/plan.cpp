// plan: what most plans share.
#include "parallel/plan.h"

#include "base/check.h"

namespace shardproof {

Schedule Plan::schedule() const {
  SP_CHECK_EQ(chunks(), 1);
  Schedule schedule;
  for (const int m : micro_batches()) {
    schedule.push_back({ActionKind::forward, m, 0});
    schedule.push_back({ActionKind::backward, m, 0});
  }
  return schedule;
}

void append_shards(std::vector<StateShard>& out, const std::string& what, const PieceTable& table,
                   const PieceTable& local, ElementRange held, float* data,
                   const std::function<bool(int)>& keep) {
  for (int i = 0; i < static_cast<int>(local.pieces().size()); ++i) {
    const ElementRange piece = local.range(i);
    const ElementRange part = intersect(piece, held);
    if (part.size() <= 0 || !keep(i)) continue;
    const PieceSpec& spec = local.pieces()[static_cast<std::size_t>(i)];
    out.push_back({what,
                   table.index(spec.name, spec.piece),
                   {part.lo - piece.lo, part.hi - piece.lo},
                   data + (part.lo - held.lo)});
  }
}

}  // namespace shardproof
