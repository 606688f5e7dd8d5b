// unit_cost: unit by unit, as the design says, not as the code does.
#include "parallel/unit_cost.h"

#include <algorithm>

#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

Call call_of(CallKind kind, std::size_t count) {
  Call call;
  call.kind = kind;
  call.count = count;
  return call;
}

// An all-gather or a reduce-scatter of shares.
Call call_of(CallKind kind, std::vector<std::size_t> shares) {
  Call call;
  call.kind = kind;
  call.recv_counts = std::move(shares);
  return call;
}

}  // namespace

UnitCost::UnitCost(const Layout& layout, const PlanOptions& options, int world_rank,
                   CommBackend backend)
    : layout_(layout),
      options_(options),
      at_(coordinates(layout, world_rank)),
      backend_(backend),
      group_(layout.shard_size()),
      owners_(micro_batch_owners(layout, options.micro_batches)) {}

void UnitCost::add(const std::string& label, const Call& call, int rank, int size) {
  calls[label].push_back(predicted(call, rank, size, backend_));
}

void UnitCost::add(const std::string& label, const std::vector<PredictedCall>& more) {
  calls[label].insert(calls[label].end(), more.begin(), more.end());
}

// Of the state group, context outer; of context ranks; of the data ranks of this context rank.
UnitCost::Counts UnitCost::state_shares(const PieceTable& table) const {
  const auto counts = table.share_counts(layout_.cp * group_);
  return {counts.begin(), counts.end()};
}

UnitCost::Counts UnitCost::context_shares(const PieceTable& table) const {
  const Counts state = state_shares(table);
  Counts out(static_cast<std::size_t>(layout_.cp), 0);
  for (std::size_t i = 0; i < state.size(); ++i)
    out[i / static_cast<std::size_t>(group_)] += state[i];
  return out;
}

UnitCost::Counts UnitCost::data_shares(const PieceTable& table) const {
  const Counts state = state_shares(table);
  const auto first = state.begin() + at_.cp * group_;
  return {first, first + group_};
}

std::size_t UnitCost::own_share(const PieceTable& table) const {
  return data_shares(table)[static_cast<std::size_t>(at_.dp % group_)];
}

// Of the micro-batches of a rank of this shard group.
std::size_t UnitCost::subtrees(int shard_rank) const {
  return owners_.subtrees(at_.dp / group_ * group_ + shard_rank).size();
}

void UnitCost::micro_batch(const PieceTable& table, std::size_t round) {
  if (layout_.sequence_parallel) sum_whole_parameters(table);
  if (layout_.cp > 1) sum_over_context(table);
  if (layout_.zero < 2) return;
  if (options_.native) return scatter(data_shares(table));
  // Whoever has a micro-batch in this round brings it.
  std::vector<bool> brings;
  for (int f = 0; f < group_; ++f) {
    const auto rank = static_cast<std::size_t>(at_.dp / group_ * group_ + f);
    brings.push_back(owners_.owned[rank].size() > round);
  }
  exchange(data_shares(table), brings);
}

void UnitCost::sum_whole_parameters(const PieceTable& table) {
  std::size_t whole = 0;
  for (const PieceSpec& piece : table.pieces()) {
    if (piece.pieces == 1) whole += static_cast<std::size_t>(piece.elements());
  }
  const int rank = at_.cp * layout_.tp + at_.tp;
  if (options_.native) {
    return add("sequence", call_of(CallKind::all_reduce, whole), rank, layout_.cp * layout_.tp);
  }
  add("sequence", predicted_all_reduce(residual_owners(layout_, options_.shape.sequence_pieces),
                                       whole, rank, backend_));
}

void UnitCost::sum_over_context(const PieceTable& table) {
  const Counts shares = context_shares(table);
  if (options_.native) {
    return add("cp", call_of(CallKind::reduce_scatter, shares), at_.cp, layout_.cp);
  }
  add("cp", predicted_reduce_scatter(sequence_owners(layout_, options_.shape.sequence_pieces),
                                     shares, Dtype::f32, at_.cp, backend_));
}

// Native: one sum over the shard group.
void UnitCost::scatter(const Counts& shares) {
  add(layout_.dp == group_ ? "dp" : "shard", call_of(CallKind::reduce_scatter, shares),
      at_.dp % group_, group_);
}

// All-to-all of one subtree a rank: everybody's share to its owner.
void UnitCost::exchange(const Counts& shares, const std::vector<bool>& brings) {
  const auto me = static_cast<std::size_t>(at_.dp % group_);
  Call call;
  call.kind = CallKind::all_to_all;
  call.send_counts = brings[me] ? shares : Counts(shares.size(), 0);
  for (std::size_t f = 0; f < shares.size(); ++f) {
    call.recv_counts.push_back(f != me && brings[f] ? shares[me] : 0);
  }
  add(layout_.dp == group_ ? "dp" : "shard", call, static_cast<int>(me), group_);
}

void UnitCost::end_of_step(const UnitSpec& unit) {
  const Counts shares = data_shares(unit.table);
  if (layout_.zero < 2) {
    std::size_t rounds = 0;
    for (int f = 0; f < group_; ++f) rounds = std::max(rounds, subtrees(f));
    if (options_.native) {
      scatter(shares);
    } else if (group_ == layout_.dp) {
      add("dp", predicted_reduce_scatter(owners_, shares, Dtype::f32, at_.dp, backend_));
    } else {
      for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<bool> brings;
        for (int f = 0; f < group_; ++f) brings.push_back(subtrees(f) > round);
        exchange(shares, brings);
      }
    }
  }
  if (group_ < layout_.dp) sum_over_replicas(shares);
  // ZeRO 0 gathers the gradient, 1 and 2 the parameters: the same call.
  if (layout_.zero < 3 && unit.use == 0) gather("state", unit.table);
}

void UnitCost::sum_over_replicas(const Counts& shares) {
  const std::size_t share = shares[static_cast<std::size_t>(at_.dp % group_)];
  const int rank = at_.dp / group_, size = layout_.dp / group_;
  if (options_.native) {
    return add("replica", call_of(CallKind::all_reduce, share), rank, size);
  }
  canonical::LeafOwners groups{owners_.leaves, {}};
  for (std::size_t r = 0; r < owners_.owned.size(); ++r) {
    if (r % static_cast<std::size_t>(group_) == 0) groups.owned.emplace_back();
    const auto& mine = owners_.owned[r];
    groups.owned.back().insert(groups.owned.back().end(), mine.begin(), mine.end());
  }
  add("replica", predicted_all_reduce(groups, share, rank, backend_));
}

void UnitCost::gather(const std::string& label, const PieceTable& table) {
  add(label, call_of(CallKind::all_gather, state_shares(table)), at_.cp * group_ + at_.dp % group_,
      layout_.cp * group_);
}

void UnitCost::tied(const std::vector<UnitSpec>& units) {
  const auto of_use = [&](int use) {
    return std::ranges::find_if(
        units, [use](const UnitSpec& unit) { return unit.tied && unit.use == use; });
  };
  const bool embeds = of_use(0) != units.end(), heads = of_use(1) != units.end();
  if (embeds == heads) return;  // both uses here, or none
  const PieceTable& table = of_use(embeds ? 0 : 1)->table;
  // The head's gradient goes to the first stage, new values come back.
  const Call sends = call_of(CallKind::send, own_share(table));
  const Call receives = call_of(CallKind::recv, own_share(table));
  add("pp", embeds ? receives : sends, at_.pp, layout_.pp);
  add("pp", embeds ? sends : receives, at_.pp, layout_.pp);
  if (heads && layout_.zero < 3) gather("state", table);
}

}  // namespace shardproof
