// mpi_group: one MPI communicator and what this rank knows about its health; shared by the
// communicator object, the communication thread and the groups split from it (a revoked ancestor
// revokes its descendants: they look up the chain while they wait).
// Thread rule: every member is safe from any thread, except next_collective and next_agreement (the
// owner's thread). Internal to the MPI backend.
#pragma once

#include <mpi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi_failure.h"

namespace shardproof {

// What all groups of a process share.
struct MpiProcess {
  bool crowded = false;  // more ranks than cores on this machine: never spin
  std::atomic<bool> finalized{false};
  std::atomic<bool> unclean{false};  // a call was given up: the library may still know of it
};

class MpiGroup {
 public:
  // Takes `comm`, whose errors it makes return codes. `parent` is null for a group of its own.
  MpiGroup(std::shared_ptr<MpiProcess> process, MPI_Comm comm, Group group,
           std::shared_ptr<MpiGroup> parent);
  ~MpiGroup();
  MpiGroup(const MpiGroup&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(group_.world_ranks.size()); }
  const Group& group() const { return group_; }
  MpiProcess& process() const { return *process_; }
  std::shared_ptr<MpiProcess> shared_process() const { return process_; }

  int next_collective() { return static_cast<int>(collectives_++ % tag_space); }
  int next_agreement() { return agreement_tags + static_cast<int>(agreements_++ % tag_space); }

  // No further calls on this rank; its peers are not told.
  void poison();
  void revoke();
  void time_out();  // poisons, and revokes the communicator: no peer waits for this rank in vain
  // Flags of this process alone: cheap enough for every poll.
  bool stopped() const;
  // Asks the library as well. Throws Error peer_died or revoked when the group is broken.
  void check(const std::string& place);
  bool poisoned() const;
  // The Error for an MPI call that returned `code`; the group is poisoned.
  [[noreturn]] void fail(int code, const std::string& place);

  // Calls of the owner's thread under way, and calls handed to the communication thread.
  std::atomic<int> active{0};
  std::atomic<int> pending_collectives{0};
  std::atomic<int> pending_messages{0};

  void count_call() { ++calls_; }
  void count(std::uint64_t bytes_sent, Duration time_in_call);
  Traffic traffic() const;

 private:
  bool revoked_anywhere() const;

  const std::shared_ptr<MpiProcess> process_;
  const std::shared_ptr<MpiGroup> parent_;
  MPI_Comm comm_;
  const Group group_;
  int rank_ = 0;
  std::uint64_t collectives_ = 0;
  std::uint64_t agreements_ = 0;
  std::atomic<bool> poisoned_{false};
  std::atomic<bool> revoked_{false};
  std::atomic<bool> timed_out_{false};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> bytes_sent_{0};
  std::atomic<Duration::rep> time_in_calls_{0};
};

// Polls `advance` until it is true: yields at once on a crowded machine, else after spinning for as
// long as a small message takes; a long wait sleeps between polls. Throws Error timeout (the group
// is poisoned), or what check() throws. `place` is called for the text of an Error.
void poll(MpiGroup& group, Deadline deadline, const std::function<bool()>& advance,
          const std::function<std::string()>& place);

// Runs a blocking MPI function on a thread of its own, which is left behind when the deadline
// expires (Error timeout; the group is poisoned), or, unless the function is one for broken groups,
// when the group breaks and the function does not end by itself soon. `function` must own all it
// uses.
enum class OnBrokenGroup { gives_up, goes_on };
int call_blocking(MpiGroup& group, Deadline deadline, const std::string& place, OnBrokenGroup how,
                  std::function<int()> function);

}  // namespace shardproof
