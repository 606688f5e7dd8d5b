// step_scalars: one gather carries all small numbers of a step.
#include "parallel/step_scalars.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/check.h"

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

StepScalars::StepScalars(const canonical::LeafOwners& owners, int sequence_pieces, int rank)
    : owners_(owners),
      sequence_pieces_(sequence_pieces),
      micro_batches_(owners.owned[static_cast<std::size_t>(rank)]) {
  std::size_t total = 0;
  for (const auto& owned : owners.owned) {
    counts_.push_back(losses_at + owned.size() * static_cast<std::size_t>(sequence_pieces));
    total += counts_.back();
  }
  mine_.resize(counts_[static_cast<std::size_t>(rank)]);
  all_.resize(total);
}

void StepScalars::pack(const StepShare& mine, const ExactSum& squares) {
  std::copy(squares.raw().begin(), squares.raw().end(), mine_.begin());
  mine_[stop_at] = mine.stop ? 1 : 0;
  mine_[memory_at] = mine.memory_bytes;
  SP_CHECK_EQ(mine.losses.size(), mine_.size() - losses_at);
  for (std::size_t i = 0; i < mine.losses.size(); ++i) {
    const LossLeaf& leaf = mine.losses[i];
    const auto pieces = static_cast<std::size_t>(sequence_pieces_);
    SP_CHECK_EQ(leaf.micro_batch, micro_batches_[i / pieces]);
    SP_CHECK_EQ(leaf.sequence_piece, static_cast<int>(i % pieces));
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
  std::map<Node, double> micro_batches;
  const std::int64_t* part = all_.data();
  for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
    const std::int64_t* loss = part + losses_at;
    for (const int m : owners_.owned[rank]) {
      std::map<Node, double> leaves;
      for (int s = 0; s < sequence_pieces_; ++s) {
        leaves.emplace(Node{s, s + 1}, std::bit_cast<double>(*loss++));
      }
      micro_batches.emplace(Node{m, m + 1}, *tree_sum(leaves, 0, sequence_pieces_, add));
    }
    part += counts_[rank];
  }
  return *tree_sum(micro_batches, 0, owners_.leaves, add);
}

std::int64_t StepScalars::live_bytes() const {
  return static_cast<std::int64_t>((mine_.capacity() + all_.capacity()) * sizeof(std::int64_t));
}

}  // namespace shardproof
