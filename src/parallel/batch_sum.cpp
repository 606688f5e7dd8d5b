// batch_sum: the canonical form; native_batch_sum.cpp has the other.
#include "parallel/batch_sum.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/memory_use.h"
#include "comm/canonical.h"
#include "parallel/batch_tree.h"
#include "parallel/flat.h"
#include "parallel/mesh_pieces.h"
#include "parallel/native_batch_sum.h"

namespace shardproof {
namespace {

std::vector<const void*> pointers(const std::map<Node, at::Tensor>& subtrees) {
  std::vector<const void*> out;
  for (const auto& [node, values] : subtrees) out.push_back(values.const_data_ptr());
  return out;
}

// Shares of subtrees from the ranks of a shard group, each into the tree of this rank's share.
class ShareExchange {
 public:
  ShareExchange(Communicator& shard, const std::vector<std::size_t>& shares, BatchTree& tree)
      : shard_(shard), shares_(shares), tree_(tree), begin_(share_range(shares, shard.rank()).lo) {}

  // nodes[r]: the subtree of which rank r sends shares now; `values`: of this rank's.
  void run(const std::vector<std::optional<Node>>& nodes, const float* values) {
    const auto me = static_cast<std::size_t>(shard_.rank());
    const std::size_t share = shares_[me];
    std::vector<std::size_t> receives(nodes.size(), 0);
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      if (r != me && nodes[r]) receives[r] = share;
    }
    const at::Tensor received = flat_empty(total(receives), MemoryUse::communication);
    all_to_all_v(shard_, values, received.data_ptr(),
                 nodes[me] ? shares_ : std::vector<std::size_t>(nodes.size(), 0), receives,
                 Dtype::f32);
    const auto* next = received.const_data_ptr<float>();
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      if (!nodes[r]) continue;
      const float* from = r == me ? values + begin_ : std::exchange(next, next + share);
      at::Tensor part = tree_.take();
      std::copy_n(from, share, part.data_ptr<float>());
      tree_.add(*nodes[r], std::move(part));
    }
  }

 private:
  Communicator& shard_;
  const std::vector<std::size_t>& shares_;
  BatchTree& tree_;
  const std::int64_t begin_;  // of this rank's share
};

// What both canonical forms end with.
class CanonicalBatchSum : public BatchSum {
 public:
  CanonicalBatchSum(PlanGroups& groups, BatchSumOptions options)
      : groups_(groups),
        options_(std::move(options)),
        owners_(micro_batch_owners(groups.layout(), options_.micro_batches)),
        share_(static_cast<std::int64_t>(
            options_.shares[static_cast<std::size_t>(groups.shard_rank())])),
        shares_tree_(share_, options_.micro_batches),
        exchange_(groups.shard(), options_.shares, shares_tree_) {
    if (groups.replicas() > 1) sum_ = flat_zeros(share_, MemoryUse::gradients);
  }

  void clear() override { shares_tree_.clear(); }
  std::int64_t live_bytes() const override {
    return shares_tree_.live_bytes() +
           (sum_.defined() ? static_cast<std::int64_t>(sum_.nbytes()) : 0);
  }

 protected:
  // Micro-batches of a rank of this shard group.
  const std::vector<int>& owned_by(int shard_rank) const {
    const int rank = groups_.replica() * groups_.shard_size() + shard_rank;
    return owners_.owned[static_cast<std::size_t>(rank)];
  }

  // The share's tree holds the subtrees of this shard group's micro-batches: all of them meet.
  float* sum_over_replicas() {
    if (groups_.replicas() == 1) {
      SP_CHECK_EQ(shares_tree_.subtrees().size(), 1U);
      return shares_tree_.subtrees().begin()->second.data_ptr<float>();
    }
    canonical::LeafOwners groups{options_.micro_batches, {}};
    for (std::size_t r = 0; r < owners_.owned.size(); ++r) {
      if (r % static_cast<std::size_t>(groups_.shard_size()) == 0) groups.owned.emplace_back();
      auto& of_group = groups.owned.back();
      of_group.insert(of_group.end(), owners_.owned[r].begin(), owners_.owned[r].end());
    }
    canonical::all_reduce(groups_.replica_group(), groups, pointers(shares_tree_.subtrees()),
                          static_cast<std::size_t>(share_), Dtype::f32, sum_.data_ptr());
    return sum_.data_ptr<float>();
  }

  PlanGroups& groups_;
  const BatchSumOptions options_;
  const canonical::LeafOwners owners_;  // of micro-batches, by data rank
  const std::int64_t share_;
  BatchTree shares_tree_;
  ShareExchange exchange_;
  at::Tensor sum_;  // over several shard groups
};

class OnceAStep : public CanonicalBatchSum {
 public:
  OnceAStep(PlanGroups& groups, BatchSumOptions options)
      : CanonicalBatchSum(groups, std::move(options)),
        whole_(total(options_.shares)),
        tree_(whole_, options_.micro_batches) {
    // Takes the sum on a rank without micro-batches.
    if (owned_by(groups.shard_rank()).empty()) {
      no_leaves_ = flat_zeros(whole_, MemoryUse::gradients);
    }
  }

  at::Tensor spare() override { return tree_.take(); }
  void add(int micro_batch, at::Tensor sum) override { tree_.add(micro_batch, std::move(sum)); }

  float* reduce() override {
    const auto subtrees = pointers(tree_.subtrees());
    SP_CHECK_EQ(subtrees.size(), owners_.subtrees(groups_.at().dp).size());
    return groups_.replicas() == 1 ? scatter(subtrees) : scatter_in_group(subtrees);
  }

  void clear() override {
    CanonicalBatchSum::clear();
    tree_.clear();
  }
  std::int64_t live_bytes() const override {
    return CanonicalBatchSum::live_bytes() + tree_.live_bytes() +
           (no_leaves_.defined() ? static_cast<std::int64_t>(no_leaves_.nbytes()) : 0);
  }

  std::int64_t staging_bytes() const override {
    return received_.defined() ? static_cast<std::int64_t>(received_.nbytes()) : 0;
  }

 private:
  // In place: the sum of the own share overwrites it in this rank's first subtree.
  float* scatter(const std::vector<const void*>& subtrees) {
    const at::Tensor& target = subtrees.empty() ? no_leaves_ : tree_.subtrees().begin()->second;
    float* out = target.data_ptr<float>() + share_range(options_.shares, groups_.shard_rank()).lo;
    const auto storage = storage_for(
        canonical::storage_bytes(owners_, options_.shares, groups_.shard_rank(), Dtype::f32));
    canonical::reduce_scatter(groups_.data(), owners_, subtrees, options_.shares, Dtype::f32, out,
                              storage);
    return out;
  }

  // For what others send: an arena is idle by then.
  std::span<std::byte> storage_for(std::size_t bytes) {
    if (bytes == 0) return {};
    if (bytes <= static_cast<std::size_t>(whole_) * sizeof(float)) {
      const at::Tensor& idle = tree_.spare();
      return {reinterpret_cast<std::byte*>(idle.data_ptr<float>()), idle.nbytes()};
    }
    const MemoryScope scope(MemoryUse::communication);
    if (!received_.defined()) received_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
    return {static_cast<std::byte*>(received_.data_ptr()), received_.nbytes()};
  }

  float* scatter_in_group(const std::vector<const void*>& subtrees) {
    std::vector<std::vector<Node>> nodes;
    std::size_t rounds = 0;
    for (int f = 0; f < groups_.shard_size(); ++f) {
      nodes.push_back(owners_.subtrees(groups_.replica() * groups_.shard_size() + f));
      rounds = std::max(rounds, nodes.back().size());
    }
    for (std::size_t round = 0; round < rounds; ++round) {
      std::vector<std::optional<Node>> now;
      for (const auto& of_rank : nodes) {
        now.push_back(round < of_rank.size() ? std::optional(of_rank[round]) : std::nullopt);
      }
      exchange_.run(now,
                    round < subtrees.size() ? static_cast<const float*>(subtrees[round]) : nullptr);
    }
    return sum_over_replicas();
  }

  const std::int64_t whole_;  // elements of the shares together
  BatchTree tree_;
  at::Tensor no_leaves_;
  at::Tensor received_;
};

class EveryMicroBatch : public CanonicalBatchSum {
 public:
  using CanonicalBatchSum::CanonicalBatchSum;

  at::Tensor spare() override {
    if (groups_.context().size() == 1) return {};  // the arena itself
    return flat_empty(total(options_.shares), MemoryUse::gradients);
  }

  void add(int micro_batch, at::Tensor sum) override {
    const auto& mine = owned_by(groups_.shard_rank());
    const auto found = std::ranges::find(mine, micro_batch);
    SP_CHECK(found != mine.end(), "a micro-batch of another rank ended");
    const auto round = static_cast<std::size_t>(found - mine.begin());
    std::vector<std::optional<Node>> nodes;
    for (int f = 0; f < groups_.shard_size(); ++f) {
      const int leaf = owned_by(f).at(round);
      nodes.push_back(Node{leaf, leaf + 1});
    }
    exchange_.run(nodes, sum.const_data_ptr<float>());
  }

  float* reduce() override { return sum_over_replicas(); }
};

}  // namespace

std::unique_ptr<BatchSum> make_batch_sum(PlanGroups& groups, BatchSumOptions options) {
  if (options.native) return make_native_batch_sum(groups, std::move(options));
  if (options.every_micro_batch) {
    return std::make_unique<EveryMicroBatch>(groups, std::move(options));
  }
  return std::make_unique<OnceAStep>(groups, std::move(options));
}

}  // namespace shardproof
