// step_cost: unit by unit, as the design says, not as the code does.
#include "parallel/step_cost.h"

#include <algorithm>

#include "base/exact_sum.h"
#include "parallel/mesh_pieces.h"
#include "parallel/units.h"

namespace shardproof {
namespace {

using Counts = std::vector<std::size_t>;

// The limbs of the norm, memory, a wish to stop; each is one int64, as a loss leaf is.
constexpr std::size_t scalars_of_a_rank = ExactSum::limbs + 2;

class Prediction {
 public:
  Prediction(const Layout& layout, const GptShape& shape, int micro_batches, int rank,
             CommBackend backend)
      : layout_(layout),
        shape_(shape),
        at_(coordinates(layout, rank)),
        rank_(rank),
        backend_(backend),
        group_(layout.shard_size()),
        owners_(micro_batch_owners(layout, micro_batches)) {}

  GroupCalls run(int unit_layers) {
    const std::vector<int> mine =
        tensor_owners(layout_, shape_.tensor_pieces).owned[static_cast<std::size_t>(at_.tp)];
    const auto units =
        units_of(shape_, mine, {{0, shape_.layers}}, layout_.zero >= 2 ? unit_layers : 0);
    add("dp", all_reduce_call(1, Dtype::i64), at_.dp, layout_.dp);
    const std::size_t passes = owners_.owned[static_cast<std::size_t>(at_.dp)].size();
    for (const UnitSpec& unit : units) {
      for (std::size_t pass = 0; pass < passes; ++pass) micro_batch(unit.table, pass);
      end_of_step(unit.table);
    }
    if (layout_.zero == 3) gathers(units, passes);
    scalars();
    return out_;
  }

 private:
  void add(const char* label, const Call& call, int rank, int size) {
    out_[label].push_back(predicted(call, rank, size, backend_));
  }
  void add(const char* label, const std::vector<PredictedCall>& calls) {
    out_[label].insert(out_[label].end(), calls.begin(), calls.end());
  }

  static Call all_reduce_call(std::size_t count, Dtype dtype) {
    Call call;
    call.kind = CallKind::all_reduce;
    call.dtype = dtype;
    call.count = count;
    return call;
  }
  static Call gather_call(Counts counts, Dtype dtype = Dtype::f32) {
    Call call;
    call.kind = CallKind::all_gather;
    call.dtype = dtype;
    call.recv_counts = std::move(counts);
    return call;
  }

  // Shares of the state group (context outer), and their sums by context rank.
  Counts state_shares(const PieceTable& table) const {
    const auto counts = table.share_counts(layout_.cp * group_);
    return {counts.begin(), counts.end()};
  }
  Counts context_shares(const PieceTable& table) const {
    const Counts state = state_shares(table);
    Counts out(static_cast<std::size_t>(layout_.cp), 0);
    for (std::size_t i = 0; i < state.size(); ++i) {
      out[i / static_cast<std::size_t>(group_)] += state[i];
    }
    return out;
  }
  Counts data_shares(const PieceTable& table) const {
    const Counts state = state_shares(table);
    const auto first = state.begin() + at_.cp * group_;
    return {first, first + group_};
  }

  void micro_batch(const PieceTable& table, std::size_t pass) {
    if (layout_.sequence_parallel) {
      std::size_t whole = 0;
      for (const PieceSpec& piece : table.pieces()) {
        if (piece.pieces == 1) whole += static_cast<std::size_t>(piece.elements());
      }
      add("sequence", predicted_all_reduce(residual_owners(layout_, shape_.sequence_pieces), whole,
                                           at_.cp * layout_.tp + at_.tp, backend_));
    }
    if (layout_.cp > 1) {
      add("cp", predicted_reduce_scatter(sequence_owners(layout_, shape_.sequence_pieces),
                                         context_shares(table), Dtype::f32, at_.cp, backend_));
    }
    if (layout_.zero >= 2) exchange(data_shares(table), neighbours(pass));
  }

  // Who of the shard group brings a subtree in this round.
  std::vector<bool> neighbours(std::size_t pass) const {
    std::vector<bool> out;
    for (int f = 0; f < group_; ++f) out.push_back(owned(f).size() > pass);
    return out;
  }
  const std::vector<int>& owned(int shard_rank) const {
    return owners_.owned[static_cast<std::size_t>(at_.dp / group_ * group_ + shard_rank)];
  }

  // All-to-all of one subtree a rank: everybody's share to its owner.
  void exchange(const Counts& shares, const std::vector<bool>& brings) {
    const auto me = static_cast<std::size_t>(at_.dp % group_);
    Call call;
    call.kind = CallKind::all_to_all;
    call.send_counts = brings[me] ? shares : Counts(shares.size(), 0);
    for (std::size_t f = 0; f < shares.size(); ++f) {
      call.recv_counts.push_back(f != me && brings[f] ? shares[me] : 0);
    }
    add(layout_.dp == group_ ? "dp" : "shard", call, static_cast<int>(me), group_);
  }

  void end_of_step(const PieceTable& table) {
    const Counts shares = data_shares(table);
    if (layout_.zero < 2 && group_ == layout_.dp) {
      add("dp", predicted_reduce_scatter(owners_, shares, Dtype::f32, at_.dp, backend_));
    } else if (layout_.zero < 2) {
      std::size_t rounds = 0;
      for (int f = 0; f < group_; ++f) rounds = std::max(rounds, subtrees(f));
      for (std::size_t round = 0; round < rounds; ++round) {
        std::vector<bool> brings;
        for (int f = 0; f < group_; ++f) brings.push_back(subtrees(f) > round);
        exchange(shares, brings);
      }
    }
    if (group_ < layout_.dp) {
      canonical::LeafOwners groups{owners_.leaves, {}};
      for (std::size_t r = 0; r < owners_.owned.size(); ++r) {
        if (r % static_cast<std::size_t>(group_) == 0) groups.owned.emplace_back();
        const auto& mine = owners_.owned[r];
        groups.owned.back().insert(groups.owned.back().end(), mine.begin(), mine.end());
      }
      add("replica", predicted_all_reduce(groups, shares[static_cast<std::size_t>(at_.dp % group_)],
                                          at_.dp / group_, backend_));
    }
    // ZeRO 0 gathers the gradient, 1 and 2 the parameters: the same call.
    if (layout_.zero < 3) state_gather("state", table);
  }

  std::size_t subtrees(int shard_rank) const {
    return owners_.subtrees(at_.dp / group_ * group_ + shard_rank).size();
  }

  void state_gather(const char* label, const PieceTable& table) {
    const int rank = at_.cp * group_ + at_.dp % group_;
    add(label, gather_call(state_shares(table)), rank, layout_.cp * group_);
  }

  // A forward uses every unit in order, a backward in the other, but for the embedding, which it
  // only gathers ahead, for the next forward. The units at each turn stay.
  void gathers(const std::vector<UnitSpec>& units, std::size_t passes) {
    for (std::size_t pass = 0; pass < passes; ++pass) {
      for (std::size_t u = pass == 0 ? 0 : 2; u < units.size(); ++u) {
        state_gather("gather", units[u].table);
      }
      for (std::size_t u = units.size() - 1; u-- > 0;) state_gather("gather", units[u].table);
    }
  }

  void scalars() {
    const auto sequence = sequence_owners(layout_, shape_.sequence_pieces);
    Counts counts;
    for (int rank = 0; rank < layout_.world(); ++rank) {
      const Coordinates at = coordinates(layout_, rank);
      const std::size_t losses = owners_.owned[static_cast<std::size_t>(at.dp)].size() *
                                 sequence.owned[static_cast<std::size_t>(at.cp)].size();
      counts.push_back(scalars_of_a_rank + (at.tp == 0 ? losses : 0));
    }
    add("all", gather_call(std::move(counts), Dtype::i64), rank_, layout_.world());
  }

  const Layout layout_;
  const GptShape shape_;
  const Coordinates at_;
  const int rank_;
  const CommBackend backend_;
  const int group_;  // F
  const canonical::LeafOwners owners_;
  GroupCalls out_;
};

}  // namespace

GroupCalls predicted_step(const Layout& layout, const GptShape& shape, int micro_batches,
                          int unit_layers, int world_rank, CommBackend backend) {
  return Prediction(layout, shape, micro_batches, world_rank, backend).run(unit_layers);
}

}  // namespace shardproof
