// recompute: leaves are seen through the plan's tap, and compared by checksum.
#include "train/recompute.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "mesh/layout.h"
#include "train/sections.h"

namespace shardproof {

Recompute::Recompute(const Config& config, Mesh& mesh, Plan& plan,
                     std::shared_ptr<const Dataset> dataset)
    : config_(config), mesh_(mesh), plan_(plan), dataset_(std::move(dataset)) {
  // Shares that are brought in again would count as the step's own traffic.
  possible_ = config.parallel.offload_parameters == "none" && plan.tap(nullptr);
}

int Recompute::owner(int shift) const {
  return (mesh_.at().dp + shift) % mesh_.layout().dp;
}

int Recompute::sampled(int data_rank) const {
  const auto mine = owned_micro_batches(mesh_.layout(), config_.micro_batches(), data_rank);
  if (mine.empty()) return -1;
  return mine[static_cast<std::size_t>(audit_) % mine.size()];
}

void Recompute::watch(std::int64_t audit) {
  audit_ = audit;
  own_.clear();
  tap(sampled(owner(0)), own_, false);
}

void Recompute::tap(int micro_batch, Leaves& leaves, bool takes) {
  plan_.tap([micro_batch, &leaves, takes](int piece_index, int sequence_piece,
                                          const at::Tensor& leaf, const Site& site) {
    if (site.micro_batch != micro_batch) return takes;
    const at::Tensor whole = leaf.contiguous();
    leaves[{site.use, piece_index, sequence_piece}] = checksum(
        whole.const_data_ptr(), static_cast<std::size_t>(whole.numel()) * whole.element_size());
    return takes;
  });
}

std::string Recompute::own(std::span<const LossLeaf> losses) const {
  return digest(own_, sampled(owner(0)), losses);
}

std::string Recompute::again(int shift, Executor& executor, const DataCursor& cursor, double seed) {
  const int micro_batch = sampled(owner(shift));
  if (micro_batch < 0) return "none";
  LoaderConfig how = loader_of(config_);
  how.workers = 0;
  Loader loader(dataset_, how, {micro_batch});
  loader.seek(cursor, Remix::allow);
  const std::vector<MicroBatch> batches = loader.next();
  Leaves leaves;
  tap(micro_batch, leaves, true);
  return digest(leaves, micro_batch, executor.run_apart(batches.at(0), seed));
}

std::string Recompute::digest(const Leaves& leaves, int micro_batch,
                              std::span<const LossLeaf> losses) const {
  if (micro_batch < 0) return "none";
  std::uint64_t sum = 0;
  for (const auto& [place, leaf] : leaves) {
    const std::uint64_t words[] = {static_cast<std::uint64_t>(std::get<0>(place)),
                                   static_cast<std::uint64_t>(std::get<1>(place)),
                                   static_cast<std::uint64_t>(std::get<2>(place)), leaf};
    sum = checksum(words, sizeof words, sum);
  }
  std::map<int, double> of_pieces;  // a schedule may have run them in another order
  for (const LossLeaf& loss : losses) {
    if (loss.micro_batch == micro_batch) of_pieces[loss.sequence_piece] = loss.sum;
  }
  for (const auto& [piece, loss] : of_pieces) sum = checksum(&loss, sizeof loss, sum);
  return fmt::format("{:016x}", sum);
}

}  // namespace shardproof
