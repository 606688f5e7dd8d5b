// thread_agreement: decisions that all living ranks of a group of threads take together: how a
// split divides them, what flags they agree on, who is left after deaths. Each rank brings a
// proposal; the first rank that sees all that are needed decides for everyone. Internal to the
// thread backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/thread_group.h"

namespace shardproof::internal {

struct Decision {
  std::uint64_t flags = 0;
  std::shared_ptr<ThreadGroup> child;  // of this rank; null: none
  int child_rank = -1;
};

// `round` counts a rank's calls of each function in this group from 0.
// split needs every rank and a group that is not broken; agree and shrink need the living ranks and
// work on a broken group. Errors as in communicator.h.
Decision split(ThreadGroup& group, int rank, std::uint64_t round, ThreadGroup::Proposal proposal,
               const Deadline& deadline);
Decision agree(ThreadGroup& group, int rank, std::uint64_t round, std::uint64_t flags,
               const Deadline& deadline);
Decision shrink(ThreadGroup& group, int rank, std::uint64_t round, const std::string& label,
                const Deadline& deadline);

}  // namespace shardproof::internal
