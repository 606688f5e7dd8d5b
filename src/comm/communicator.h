// communicator: what a group of ranks can do together. The interface is narrow on purpose: every
// collective and message is one Call value, so a decorator (recorder, guard, fault) overrides two
// functions, run and start. The free functions below spell the calls that code makes.
//
// Semantics
//  - All ranks of a group make the same calls in the same order; calls are numbered per group from
//    0 (`sequence`). send/recv are numbered apart, per (peer, tag).
//  - run() is synchronous and inline. start() hands the call to a communication thread owned by the
//    backend and returns a Work, which keeps `keep` (the owner of the buffers) alive until the call
//    has completed or been aborted. Collectives started on one communicator complete in start
//    order, and a collective run() after them does not overtake them. Messages of one (peer, tag)
//    match in start order; they wait neither for collectives nor for messages of another (peer,
//    tag), so that two ranks may each start a send and then run a recv. A send may wait for its
//    recv (any size).
//  - When a wait ends in Error timeout the communicator is poisoned: every later call fails with
//    Error revoked. abort() ends what is outstanding and returns only when no peer thread and no
//    communication thread touches this rank's buffers any more.
//  - revoke() poisons the group on all its ranks, and every communicator split from it: a rank that
//    waits in a child is released too. agree() and shrink() still work after it.
//  - Any backend error while failed_ranks() is not empty is Error peer_died naming the first dead
//    world rank. The results of a failed call are undefined.
//  - Reductions of the backend itself (reduce, all_reduce, reduce_scatter) add in an order of the
//    backend's own; where bits matter use canonical.h. 16-bit floats are added in fp32 and rounded
//    once.
// Buffers: plain memory. In place: all_reduce, reduce, broadcast with send == recv; reduce_scatter
// with recv == the own share inside send; all_gather with send == the own share inside recv. Any
// other overlap is a bug of the caller (SP_CHECK).
// Thread rule: one communicator belongs to one rank's thread; revoke(), abort() and poisoned() may
// be called from any thread. Not checked here: that ranks agree on the call (a later guard does).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"

namespace shardproof {

enum class ReduceOp : std::uint8_t { sum, max, min, bit_or };  // bit_or: integers only
enum class CallKind : std::uint8_t {
  broadcast, reduce, all_reduce, reduce_scatter, all_gather, all_to_all, send, recv, barrier
};

std::string_view name(ReduceOp op);
std::string_view name(CallKind kind);  // "all_reduce", as it appears in traces

// One operation of this rank. Counts are elements of dtype.
//   broadcast, reduce, all_reduce   send/recv: `count` elements
//   reduce_scatter                  send: sum of recv_counts; recv: recv_counts[rank]
//   all_gather                      send: recv_counts[rank]; recv: sum of recv_counts
//   all_to_all                      send: sum of send_counts; recv: sum of recv_counts. The own
//                                   part is copied; recv_counts[rank] = 0 leaves it where it is
//   send, recv                      `count` elements to/from group rank `peer`, matched by `tag`
// For broadcast, `recv` is read on the root and written elsewhere (send is unused).
struct Call {
  CallKind kind = CallKind::barrier;
  ReduceOp op = ReduceOp::sum;
  Dtype dtype = Dtype::f32;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  std::vector<std::size_t> send_counts;  // one per rank (all_to_all)
  std::vector<std::size_t> recv_counts;  // one per rank (reduce_scatter, all_gather, all_to_all)
  int peer = -1;                         // root of broadcast/reduce; peer of send/recv
  int tag = 0;                           // 0 <= tag < 2^20 (send/recv)

  std::size_t send_elements(int rank) const;
  std::size_t recv_elements(int rank) const;
};

// Aborts (SP_CHECK) on a call that no group of this size could make: counts of the wrong length, a
// root outside the group, bit_or on floats, overlap that is not in place.
void validate(const Call& call, int rank, int size);

// An operation under way. Destroying an unfinished Work waits for it (it never leaves a buffer in
// use); after abort() that wait is short.
class Work {
 public:
  virtual ~Work() = default;
  virtual void wait(Deadline deadline) = 0;  // Error timeout | peer_died | revoked; may be repeated
  virtual bool done() const = 0;             // completed, with or without an error
};

using Keep = std::shared_ptr<const void>;  // shares ownership of an operation's buffers

// What our own code copied or sent for this communicator, counted where it happens.
struct Traffic {
  std::uint64_t calls = 0;
  std::uint64_t bytes_sent = 0;      // bytes this rank made travel to other ranks
  Duration time_in_calls{};          // wall time inside run() and in the communication thread
};

struct Group {
  std::string name;              // "world", "world/dp.0", ...: unique per split, same on its ranks
  std::vector<int> world_ranks;  // world rank of each group rank
};

// The name of a group made by split (color >= 0) or shrink (color < 0): "parent/label.color" or
// "parent/label"; `repeat` counts earlier uses of the label in this parent: "parent/label~1.color".
std::string child_name(const std::string& parent, const std::string& label, int repeat, int color);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Group& group() const = 0;

  virtual void run(const Call& call, Deadline deadline) = 0;
  virtual std::unique_ptr<Work> start(const Call& call, Keep keep) = 0;

  // Collective. Ranks with the same color form a new group, ordered by (key, rank); a negative
  // color takes part and gets null. `label` becomes the last part of the group's name; decorators
  // re-apply themselves to the child.
  virtual std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                              Deadline deadline) = 0;

  virtual void revoke() = 0;
  virtual void abort() = 0;
  virtual bool poisoned() const = 0;
  virtual std::vector<int> failed_ranks() const = 0;  // group ranks known to be dead, ascending
  // Bitwise or of `flags` over the ranks that are alive; works on a revoked group.
  virtual std::uint64_t agree(std::uint64_t flags, Deadline deadline) = 0;
  // A new group of the ranks that are alive, in rank order; works on a revoked group.
  virtual std::unique_ptr<Communicator> shrink(const std::string& label, Deadline deadline) = 0;

  virtual Traffic traffic() const = 0;
  // The wait of a call for which the caller gave none (see default_deadline below).
  virtual Duration timeout() const = 0;
};

inline Deadline default_deadline(const Communicator& comm) {
  return Deadline::after(comm.timeout());
}

// ---- the calls, spelled. Each runs with the communicator's own timeout. ----
void barrier(Communicator& comm);
void broadcast(Communicator& comm, void* data, std::size_t count, Dtype dtype, int root);
void reduce(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype,
            ReduceOp op, int root);
void all_reduce(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype,
                ReduceOp op);
// Equal shares: every rank gives/gets `count` elements.
void reduce_scatter(Communicator& comm, const void* send, void* recv, std::size_t count,
                    Dtype dtype, ReduceOp op);
void reduce_scatter_v(Communicator& comm, const void* send, void* recv,
                      const std::vector<std::size_t>& counts, Dtype dtype, ReduceOp op);
void all_gather(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype);
void all_gather_v(Communicator& comm, const void* send, void* recv,
                  const std::vector<std::size_t>& counts, Dtype dtype);
void all_to_all(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype);
void all_to_all_v(Communicator& comm, const void* send, void* recv,
                  const std::vector<std::size_t>& send_counts,
                  const std::vector<std::size_t>& recv_counts, Dtype dtype);
void send(Communicator& comm, const void* data, std::size_t count, Dtype dtype, int peer, int tag);
void recv(Communicator& comm, void* data, std::size_t count, Dtype dtype, int peer, int tag);

// Strings of any length from every rank, in rank order (config digests, error texts).
std::vector<std::string> all_gather_text(Communicator& comm, const std::string& mine);

}  // namespace shardproof
