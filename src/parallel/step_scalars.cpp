// step_scalars: one gather carries all small numbers of a step.
#include "parallel/step_scalars.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "parallel/mesh_pieces.h"

namespace shardproof {
namespace {

// A rank's part as it travels: the limbs, these two, then its loss leaves as the bits of doubles.
constexpr std::size_t stop_at = ExactSum::limbs;
constexpr std::size_t memory_at = stop_at + 1;
constexpr std::size_t losses_at = memory_at + 1;

double add(double left, double right) {
  return left + right;
}

}  // namespace

std::vector<LossOwner> loss_owners(const Layout& layout, int micro_batches, int sequence_pieces) {
  const auto sequence = sequence_owners(layout, sequence_pieces);
  std::vector<LossOwner> owners;
  for (int rank = 0; rank < layout.world(); ++rank) {
    const Coordinates at = coordinates(layout, rank);
    LossOwner& owner = owners.emplace_back();
    if (at.tp != 0 || at.pp != layout.pp - 1) continue;
    owner = {owned_micro_batches(layout, micro_batches, at.dp),
             sequence.owned[static_cast<std::size_t>(at.cp)]};
  }
  return owners;
}

StepScalars::StepScalars(int micro_batches, int sequence_pieces, std::vector<LossOwner> owners,
                         int rank)
    : micro_batches_(micro_batches),
      sequence_pieces_(sequence_pieces),
      owners_(std::move(owners)),
      rank_(static_cast<std::size_t>(rank)) {
  std::size_t total = 0, leaves = 0;
  for (const LossOwner& owner : owners_) {
    leaves += owner.micro_batches.size() * owner.sequence_pieces.size();
    counts_.push_back(losses_at + owner.micro_batches.size() * owner.sequence_pieces.size());
    total += counts_.back();
  }
  SP_CHECK_EQ(leaves, static_cast<std::size_t>(micro_batches) * sequence_pieces);
  mine_.resize(counts_[rank_]);
  all_.resize(total);
}

void StepScalars::pack(const StepShare& mine, const ExactSum& squares) {
  std::copy(squares.raw().begin(), squares.raw().end(), mine_.begin());
  mine_[stop_at] = mine.stop ? 1 : 0;
  mine_[memory_at] = mine.memory_bytes;
  SP_CHECK_EQ(mine.losses.size(), mine_.size() - losses_at);
  const LossOwner& owner = owners_[rank_];
  const std::size_t pieces = owner.sequence_pieces.size();
  for (std::size_t i = 0; i < mine.losses.size(); ++i) {
    const LossLeaf& leaf = mine.losses[i];
    SP_CHECK_EQ(leaf.micro_batch, owner.micro_batches[i / pieces]);
    SP_CHECK_EQ(leaf.sequence_piece, owner.sequence_pieces[i % pieces]);
    mine_[losses_at + i] = std::bit_cast<std::int64_t>(leaf.sum);
  }
}

StepTotals StepScalars::exchange(Communicator& comm, const StepShare& mine,
                                 const ExactSum& squares) {
  pack(mine, squares);
  all_gather_v(comm, mine_.data(), all_.data(), counts_, Dtype::i64);

  StepTotals totals;
  ExactSum sum;
  std::int64_t memory = 0;
  const std::int64_t* part = all_.data();
  for (const std::size_t count : counts_) {
    for (std::size_t i = 0; i < ExactSum::limbs; ++i) sum.raw()[i] += part[i];
    totals.stop = totals.stop || part[stop_at] != 0;
    totals.memory_max = std::max(totals.memory_max, part[memory_at]);
    memory += part[memory_at];
    part += count;
  }
  totals.memory_mean = memory / comm.size();
  totals.grad_norm = std::sqrt(sum.value());
  totals.loss_sum = sum_losses();
  return totals;
}

// tree(S) inside every micro-batch, tree(M) over them.
double StepScalars::sum_losses() const {
  std::map<int, std::map<Node, double>> leaves;  // by micro-batch
  const std::int64_t* part = all_.data();
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    const std::int64_t* loss = part + losses_at;
    for (const int m : owners_[rank].micro_batches) {
      for (const int s : owners_[rank].sequence_pieces) {
        leaves[m].emplace(Node{s, s + 1}, std::bit_cast<double>(*loss++));
      }
    }
    part += counts_[rank];
  }
  std::map<Node, double> sums;
  for (const auto& [m, of_batch] : leaves) {
    sums.emplace(Node{m, m + 1}, *tree_sum(of_batch, 0, sequence_pieces_, add));
  }
  return *tree_sum(sums, 0, micro_batches_, add);
}

std::int64_t StepScalars::live_bytes() const {
  return static_cast<std::int64_t>((mine_.capacity() + all_.capacity()) * sizeof(std::int64_t));
}

}  // namespace shardproof
