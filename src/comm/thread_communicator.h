// thread_communicator: ranks that are threads of one process (the embedded default). Peers' buffers
// are read in place, in chunks: nothing is staged. A waiting rank spins briefly, then blocks.
// Guarantees: the semantics of communicator.h; a simulated death (kill) is seen by all peers'
// failed_ranks() at once and releases their waits with Error peer_died.
// Algorithms and bytes sent per rank (B bytes in all, k ranks): broadcast: the root gives B to each
// of k - 1 readers; reduce: each rank but the root gives B; all_reduce 2B(k-1)/k; reduce_scatter
// and all_gather B(k-1)/k; all_to_all: what is addressed to others.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace shardproof {

class ThreadWorld {
 public:
  explicit ThreadWorld(int size, Duration timeout = std::chrono::seconds(60));
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;

  int size() const;
  // The world communicator of a rank; call once per rank, from any thread.
  std::unique_ptr<Communicator> communicator(int rank);
  // A simulated death: the rank's next call (and a wait under way) throws Error peer_died naming
  // itself; all its peers learn of it. Callable from any thread.
  void kill(int rank);
  // Revokes the world and every group split from it: releases all waits.
  void revoke_all();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace shardproof
