// pool: the ranks of an elastic run that are alive, workers and spares alike. Two things are done
// in it: a world of workers is split off, and after each go all meet: they agree on how it ended
// and shrink to those that are left. What the shrunk group lacks has died; nothing else is believed
// about deaths, so that all ranks judge alike, whatever each has seen.
// The pool itself is never the workers' group: a spare stands in the agreement while they train,
// and the death of a spare ends no step.
// Thread rule: the rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/stack.h"

namespace shardproof {

// How a go ended for one rank.
enum class GoEnd : std::uint8_t {
  complete = 1,  // the run has come to its end
  paused = 2,    // left behind a checkpoint, so that more ranks may join
  waited = 4,    // had no place
  lost = 8,      // could not go on for what may be a death
  failed = 16    // for anything else
};

struct Meeting {
  std::uint64_t ends = 0;   // of all that are alive, as bits
  std::vector<int> died{};  // ranks of the world in which the job began, ascending
  bool any(GoEnd end) const { return (ends & static_cast<std::uint64_t>(end)) != 0; }
};

class Pool {
 public:
  // `wrap` goes around what is gathered after a meeting (faults); may be null.
  Pool(std::unique_ptr<Communicator> all, Wrap wrap);

  const std::vector<int>& ranks() const { return comm_->group().world_ranks; }  // that are alive
  int position() const { return comm_->rank(); }                                // among them
  // Collective; every text of the ranks, by position.
  std::vector<std::string> gather(const std::string& mine);
  // Collective. A group of that name; null: this rank is none of `members` (positions).
  std::unique_ptr<Communicator> world(const std::vector<int>& members, const std::string& name);
  // Ends every wait in the pool and in the worlds that were split from it; meet works after it.
  void release() { comm_->revoke(); }
  // Collective. Error timeout: a rank that lives does not come within `patience` (of one without a
  // place: within the lives of the others). Error peer_died: of this rank.
  Meeting meet(GoEnd mine, Duration patience);
  Duration timeout() const { return comm_->timeout(); }

 private:
  std::unique_ptr<Communicator> shrunk();

  const Wrap wrap_;
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Communicator> talk_;  // the same ranks as "regroup~N", wrapped; null: not needed
  int meetings_ = 0;
};

}  // namespace shardproof
