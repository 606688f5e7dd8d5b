// thread_collectives: one collective of one rank of a group of threads. Each rank publishes its
// call and announces phase 1 (my buffers may be read); later phases are 2 (my share of an
// all_reduce is ready) and 3 (I read nobody's buffers any more). A rank returns when all who read
// its buffers have announced phase 3. Internal to the thread backend. A peer that published another
// call is Error mismatch, before any byte is read from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "comm/thread_group.h"

namespace shardproof::internal {

// Data moves in chunks, so that a broken group is noticed within one of them.
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

// body(first element, elements) for each chunk; false when the group broke before the end.
template <typename Body>
bool for_chunks(const ThreadGroup& group, std::size_t count, std::size_t width, const Body& body) {
  const std::size_t step = chunk_bytes / width;
  for (std::size_t begin = 0; begin < count; begin += step) {
    if (begin > 0 && group.broken()) return false;
    body(begin, std::min(step, count - begin));
  }
  return true;
}

class ThreadCollective {
 public:
  // `number`: 1 for the group's first collective. `call` must live until run() ends.
  ThreadCollective(ThreadGroup& group, int rank, std::uint64_t number, const Call& call,
                   Deadline deadline);
  void run();
  std::string place() const;  // "world all_reduce #12"

 private:
  void announce(int phase);
  void await(int peer, int phase);
  void await_all(int phase);
  // What a peer published. Its Call is gone once it has left a broken group, so the facts are
  // copied while touching. Precondition: await(peer, 1), or peer is this rank.
  struct Published {
    const std::byte* send = nullptr;
    const std::byte* recv = nullptr;
    std::size_t to_me_offset = 0;  // all_to_all: elements in `send` before those for this rank
    std::size_t to_me_count = 0;
  };
  Published published(int peer);

  void broadcast();
  void reduce();
  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void all_to_all();

  // out[0, count) = op over all ranks' elements from `offset` of their send buffers.
  void combine(std::size_t offset, std::size_t count, std::byte* out);
  void copy(int from, const std::byte* source, std::byte* target, std::size_t count);
  template <typename Section>
  void touching(const Section& section);
  [[noreturn]] void fail(ErrorKind kind, const std::string& detail);

  ThreadGroup& group_;
  const int rank_;
  const std::uint64_t number_;
  const Call& call_;
  const Deadline deadline_;
  const std::size_t width_;
};

}  // namespace shardproof::internal
