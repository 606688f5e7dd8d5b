// thread_collectives: the algorithms. Every element is read once from the buffer it lies in.
#include "comm/thread_collectives.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "comm/local_reduce.h"

namespace shardproof::internal {

namespace {

const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}
std::byte* bytes(void* data) {
  return static_cast<std::byte*>(data);
}

std::size_t sum_before(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

// Equal on two ranks exactly (up to a 64-bit collision) when they make the same collective.
std::uint64_t fingerprint_of(const Call& call, std::uint64_t number) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&hash](std::uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  mix(number);
  mix(static_cast<std::uint64_t>(call.kind) << 16 | static_cast<std::uint64_t>(call.op) << 8 |
      static_cast<std::uint64_t>(call.dtype));
  mix(call.count);
  mix(static_cast<std::uint64_t>(call.peer + 1));
  if (call.kind != CallKind::all_to_all) {  // there the counts are compared pair by pair
    for (const std::size_t count : call.recv_counts) mix(count);
  }
  return hash;
}

}  // namespace

ThreadCollective::ThreadCollective(ThreadGroup& group, int rank, std::uint64_t number,
                                   const Call& call, Deadline deadline)
    : group_(group),
      rank_(rank),
      number_(number),
      call_(call),
      deadline_(deadline),
      width_(size_of(call.dtype)) {}

std::string ThreadCollective::place() const {
  return group_.group.name + " " + std::string(name(call_.kind)) + " #" +
         std::to_string(number_ - 1);
}

void ThreadCollective::run() {
  if (group_.broken()) fail(ErrorKind::revoked, "the communicator was revoked or poisoned");
  RankSlot& mine = group_.slot(rank_);
  mine.call = &call_;
  mine.fingerprint.store(fingerprint_of(call_, number_), std::memory_order_release);
  announce(1);
  switch (call_.kind) {
    case CallKind::barrier:
      return await_all(1);
    case CallKind::broadcast:
      return broadcast();
    case CallKind::reduce:
      return reduce();
    case CallKind::all_reduce:
      return all_reduce();
    case CallKind::reduce_scatter:
      return reduce_scatter();
    case CallKind::all_gather:
      return all_gather();
    case CallKind::all_to_all:
      return all_to_all();
    case CallKind::send:
    case CallKind::recv:
      break;
  }
  SP_CHECK(false, "not a collective");
}

void ThreadCollective::announce(int phase) {
  group_.slot(rank_).progress.store(4 * number_ + static_cast<std::uint64_t>(phase),
                                    std::memory_order_seq_cst);
  group_.signal();
}

void ThreadCollective::await(int peer, int phase) {
  const std::uint64_t wanted = 4 * number_ + static_cast<std::uint64_t>(phase);
  const RankSlot& slot = group_.slot(peer);
  const auto there = [&] { return slot.progress.load(std::memory_order_seq_cst) >= wanted; };
  switch (group_.wait(there, deadline_)) {
    case WaitEnd::ready:
      return;
    case WaitEnd::broken:
      fail(ErrorKind::revoked, "the communicator was revoked or poisoned");
    case WaitEnd::timeout:
      fail(ErrorKind::timeout,
           "waited for world rank " +
               std::to_string(group_.group.world_ranks[static_cast<std::size_t>(peer)]));
  }
}

void ThreadCollective::await_all(int phase) {
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer != rank_) await(peer, phase);
  }
}

template <typename Section>
void ThreadCollective::touching(const Section& section) {
  bool whole = group_.begin_touching(rank_);
  if (whole) {
    whole = section();
    group_.end_touching(rank_);
  }
  if (!whole) fail(ErrorKind::revoked, "the communicator was revoked or poisoned");
}

ThreadCollective::Published ThreadCollective::published(int peer) {
  const RankSlot& slot = group_.slot(peer);
  const std::uint64_t mine = group_.slot(rank_).fingerprint.load(std::memory_order_relaxed);
  if (slot.fingerprint.load(std::memory_order_acquire) != mine) {
    fail(ErrorKind::mismatch,
         "world rank " + std::to_string(group_.group.world_ranks[static_cast<std::size_t>(peer)]) +
             " made another call (kind, op, dtype, counts or root differ)");
  }
  Published facts;
  touching([&] {
    const Call& call = *slot.call;
    facts.send = bytes(call.send);
    facts.recv = bytes(call.recv);
    if (call.kind == CallKind::all_to_all) {
      facts.to_me_offset = sum_before(call.send_counts, rank_);
      facts.to_me_count = call.send_counts[static_cast<std::size_t>(rank_)];
    }
    return true;
  });
  return facts;
}

void ThreadCollective::fail(ErrorKind kind, const std::string& detail) {
  group_.fail(rank_, place(), kind, detail);
}

void ThreadCollective::copy(int from, const std::byte* source, std::byte* target,
                            std::size_t count) {
  if (count == 0) return;
  if (from != rank_) {
    group_.slot(from).bytes_sent.fetch_add(count * width_, std::memory_order_relaxed);
  } else if (source == target) {
    return;
  }
  touching([&] {
    return for_chunks(group_, count, width_, [&](std::size_t begin, std::size_t n) {
      std::memcpy(target + begin * width_, source + begin * width_, n * width_);
    });
  });
}

void ThreadCollective::combine(std::size_t offset, std::size_t count, std::byte* out) {
  std::vector<const std::byte*> sources;
  for (int peer = 0; peer < group_.size(); ++peer) {
    sources.push_back(published(peer).send);
  }
  if (count == 0) return;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == rank_) continue;
    group_.slot(peer).bytes_sent.fetch_add(count * width_, std::memory_order_relaxed);
  }
  std::vector<const void*> inputs(sources.size());
  touching([&] {
    return for_chunks(group_, count, width_, [&](std::size_t begin, std::size_t n) {
      for (std::size_t i = 0; i < sources.size(); ++i) {
        inputs[i] = sources[i] + (offset + begin) * width_;
      }
      local_reduce(inputs, out + begin * width_, n, call_.dtype, call_.op);
    });
  });
}

void ThreadCollective::broadcast() {
  if (rank_ == call_.peer) {
    await_all(3);
  } else {
    await(call_.peer, 1);
    copy(call_.peer, published(call_.peer).recv, bytes(call_.recv), call_.count);
  }
  announce(3);
}

void ThreadCollective::reduce() {
  if (rank_ == call_.peer) {
    await_all(1);
    combine(0, call_.count, bytes(call_.recv));
    announce(3);
  } else {
    await(call_.peer, 3);
    announce(3);
  }
}

void ThreadCollective::all_reduce() {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const auto begin_of = [&](int r) { return call_.count * static_cast<std::size_t>(r) / ranks; };
  std::byte* out = bytes(call_.recv);
  await_all(1);
  const std::size_t begin = begin_of(rank_);
  combine(begin, begin_of(rank_ + 1) - begin, out + begin * width_);
  announce(2);
  for (int step = 1; step < group_.size(); ++step) {
    const int peer = (rank_ + step) % group_.size();
    const std::size_t at = begin_of(peer);
    await(peer, 2);
    copy(peer, published(peer).recv + at * width_, out + at * width_, begin_of(peer + 1) - at);
  }
  announce(3);
  await_all(3);
}

void ThreadCollective::reduce_scatter() {
  await_all(1);
  combine(sum_before(call_.recv_counts, rank_), call_.recv_counts[static_cast<std::size_t>(rank_)],
          bytes(call_.recv));
  announce(3);
  await_all(3);
}

void ThreadCollective::all_gather() {
  for (int step = 0; step < group_.size(); ++step) {
    const int peer = (rank_ + step) % group_.size();
    if (peer != rank_) await(peer, 1);
    copy(peer, published(peer).send,
         bytes(call_.recv) + sum_before(call_.recv_counts, peer) * width_,
         call_.recv_counts[static_cast<std::size_t>(peer)]);
  }
  announce(3);
  await_all(3);
}

void ThreadCollective::all_to_all() {
  for (int step = 0; step < group_.size(); ++step) {
    const int peer = (rank_ + step) % group_.size();
    if (peer != rank_) await(peer, 1);
    const Published theirs = published(peer);
    const std::size_t count = call_.recv_counts[static_cast<std::size_t>(peer)];
    if (peer == rank_ && count == 0) continue;
    if (theirs.to_me_count != count) {
      fail(ErrorKind::mismatch,
           "world rank " +
               std::to_string(group_.group.world_ranks[static_cast<std::size_t>(peer)]) +
               " sends " + std::to_string(theirs.to_me_count) + " elements where " +
               std::to_string(count) + " are expected");
    }
    copy(peer, theirs.send + theirs.to_me_offset * width_,
         bytes(call_.recv) + sum_before(call_.recv_counts, peer) * width_, count);
  }
  announce(3);
  await_all(3);
}

}  // namespace shardproof::internal
