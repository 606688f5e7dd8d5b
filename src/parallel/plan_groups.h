// plan_groups: the communicators of a plan on a mesh, each split from the world once, on all ranks
// in one order. The data axis may be divided into shard groups of F ranks (hybrid sharding): state
// is owned in shares inside a shard group and replicated over the dp / F groups.
// Thread rule: belongs to its rank's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "mesh/mesh.h"

namespace shardproof {

class PlanGroups {
 public:
  // Collective over the mesh's world. `gather`: a group of its own for gathers that overlap.
  PlanGroups(Mesh& mesh, bool gather);

  const Layout& layout() const { return layout_; }
  const Coordinates& at() const { return at_; }
  int shard_size() const { return shard_size_; }  // F
  int shard_rank() const { return at_.dp % shard_size_; }
  int replica() const { return at_.dp / shard_size_; }  // 0: the one that saves
  int replicas() const { return layout_.dp / shard_size_; }

  Communicator& tensor() { return tensor_; }
  Communicator& context() { return context_; }
  Communicator& data() { return data_; }
  Communicator& shard() { return shard_ ? *shard_ : data_; }  // F ranks of the data axis
  Communicator& replica_group() { return *replica_; }         // precondition: replicas() > 1
  Communicator& sequence() { return *sequence_; }  // cp x tp, context outer; precondition: sp
  Communicator& state() { return *state_; }        // cp x F, context outer: who shares the state
  Communicator& gather() { return gather_ ? *gather_ : *state_; }
  Communicator& stage() { return stage_ ? *stage_ : *all_; }  // the ranks of one pipeline stage
  Communicator& all() { return *all_; }

  std::uint64_t bytes_sent() const;
  std::uint64_t bytes_sent_in_passes() const;  // of groups that nothing but the model calls

 private:
  const Layout layout_;
  const Coordinates at_;
  const int shard_size_;
  Communicator& tensor_;
  Communicator& context_;
  Communicator& data_;
  Communicator& pipeline_;
  std::unique_ptr<Communicator> shard_, replica_, sequence_, state_, gather_, stage_, all_;
};

}  // namespace shardproof
