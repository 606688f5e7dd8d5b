// mpi_communicator: ranks that are MPI processes. No MPI type appears here. Collectives are our own
// algorithms over MPI_Isend/MPI_Irecv with MPI_Test under a deadline, so every wait can end, bytes
// are counted where they are sent, and every dtype adds as communicator.h says. Point-to-point
// messages are matched by sequence number or tag. Asynchronous work runs on a thread of ours (MPI
// makes no progress without calls), which needs MPI_THREAD_MULTIPLE.
// With ULFM (Open MPI 5, mpirun --with-ft ulfm) dead peers are known and revoke/shrink/agree are the
// library's; without it failed_ranks() stays empty, and agree/shrink on a broken group are Error
// environment (the launcher restarts instead). Compiles on Open MPI 4.1.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace shardproof {

// Owns MPI_Init_thread/MPI_Finalize: construct one, once, in main's thread. When the world was
// poisoned or a peer died, the destructor does not call MPI_Finalize (it could hang).
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
