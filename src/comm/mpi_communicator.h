// mpi_communicator: ranks that are MPI processes. No MPI type appears here. Collectives are our own
// algorithms over MPI_Isend/MPI_Irecv with MPI_Test under a deadline, so every wait can end, bytes
// are counted where they are sent, and every dtype adds as communicator.h says. Collectives are
// matched by their sequence number in the group, messages by their tag. Asynchronous work runs on a
// thread of ours (MPI makes no progress without calls), which needs MPI_THREAD_MULTIPLE.
// Algorithms and bytes sent per rank (B bytes in all, k ranks): broadcast: a binomial tree, where
// rank r counted from the root sends B to each r + 2^j < k with 2^j below r's lowest set bit (any j
// for the root); reduce: the same tree backwards, or straight to the root for 16-bit floats: each
// rank but the root sends B; reduce_scatter: pairwise exchange, B - own share; all_gather: pairwise
// exchange, own share x (k - 1); all_reduce: both with shares [n*r/k, n*(r+1)/k) of n elements,
// 2B(k-1)/k when k divides n; all_to_all: what is addressed to others; barrier: 0.
// With ULFM (Open MPI 5, mpirun --with-ft ulfm) dead peers are known and revoke/shrink/agree are
// the library's; without it failed_ranks() stays empty, and agree/shrink on a broken group are
// Error environment (the launcher restarts instead). Compiles on Open MPI 4.1. Every message leaves
// from a copy of ours: after a failed call no peer reads the caller's buffer. A receive that MPI
// cannot end (a sender stopped in the middle of a message over a network) aborts this process after
// 10 s, since its buffer would not be safe to reuse.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace shardproof {

// Owns MPI_Init_thread/MPI_Finalize: construct one, once, in main's thread, which also destroys it,
// after all communicators. When the world is poisoned, a peer died, or a rank does not come to its
// destructor within the timeout, MPI_Finalize is not called (it could hang).
class MpiWorld {
 public:
  explicit MpiWorld(Duration timeout = std::chrono::seconds(60));
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;

  std::unique_ptr<Communicator> communicator();  // the world; call once
  static std::string library_version();          // "Open MPI v5.0.11 ..."
  static bool has_ulfm();                        // compiled in; at run time needs --with-ft ulfm

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace shardproof
