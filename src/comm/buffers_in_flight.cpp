// buffers_in_flight: ranges of bytes, and samples of them.
#include "comm/buffers_in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace shardproof {

namespace {

struct Range {
  const std::byte* begin = nullptr;
  std::size_t size = 0;

  bool overlaps(const Range& other) const {
    const std::less<const std::byte*> before;
    return size > 0 && other.size > 0 && before(begin, other.begin + other.size) &&
           before(other.begin, begin + size);
  }
};

struct Ranges {
  Range read;
  Range written;
};

Ranges ranges_of(const Call& call, int rank) {
  const std::size_t width = size_of(call.dtype);
  Ranges ranges;
  ranges.read = {static_cast<const std::byte*>(call.send), call.send_elements(rank) * width};
  ranges.written = {static_cast<const std::byte*>(call.recv), call.recv_elements(rank) * width};
  if (call.kind == CallKind::broadcast && rank == call.peer) {
    ranges.read = ranges.written;
    ranges.written = {};
  }
  if (ranges.read.begin == nullptr) ranges.read.size = 0;
  if (ranges.written.begin == nullptr) ranges.written.size = 0;
  return ranges;
}

std::uint64_t sample(const Range& range) {
  constexpr std::size_t samples = 64;
  const std::size_t words = range.size / sizeof(std::uint64_t);
  std::uint64_t hash = range.size;
  const auto add = [&](std::size_t offset, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, range.begin + offset, size);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  const std::size_t steps = std::min(words, samples);
  for (std::size_t i = 0; i < steps; ++i) {
    const std::size_t word = steps == 1 ? 0 : i * (words - 1) / (steps - 1);
    add(word * sizeof(std::uint64_t), sizeof(std::uint64_t));
  }
  if (const std::size_t rest = range.size % sizeof(std::uint64_t); rest > 0) {
    add(range.size - rest, rest);
  }
  return hash;
}

}  // namespace

struct BuffersInFlight::Flight::Entry {
  std::string place;
  Ranges ranges;
  std::optional<std::uint64_t> stamp;  // of what is only read
};

BuffersInFlight::BuffersInFlight() = default;
BuffersInFlight::~BuffersInFlight() = default;

BuffersInFlight::Flight::~Flight() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.entries_.erase(entry_);
  --owner_.count_;
}

void BuffersInFlight::Flight::check_unchanged() const {
  if (!entry_->stamp || sample(entry_->ranges.read) == *entry_->stamp) return;
  throw Error(ErrorKind::mismatch, entry_->place,
              "its send buffer was written while the operation was under way");
}

void BuffersInFlight::check(const Call& call, int rank,
                            const std::function<std::string()>& place) const {
  if (count_.load(std::memory_order_acquire) == 0) return;
  const Ranges mine = ranges_of(call, rank);
  const std::lock_guard lock(mutex_);
  for (const Flight::Entry& other : entries_) {
    const char* how = nullptr;
    if (mine.written.overlaps(other.ranges.written)) how = "receive buffer overlaps the receive";
    if (mine.written.overlaps(other.ranges.read)) how = "receive buffer overlaps the send";
    if (mine.read.overlaps(other.ranges.written)) how = "send buffer overlaps the receive";
    if (how == nullptr) continue;
    throw Error(ErrorKind::mismatch, place(),
                fmt::format("its {} buffer of {}, which has not ended", how, other.place));
  }
}

std::unique_ptr<BuffersInFlight::Flight> BuffersInFlight::start(const Call& call, int rank,
                                                                const std::string& place) {
  check(call, rank, [&] { return place; });
  const Ranges ranges = ranges_of(call, rank);
  std::optional<std::uint64_t> stamp;
  if (ranges.read.size > 0 && !ranges.read.overlaps(ranges.written)) stamp = sample(ranges.read);
  const std::lock_guard lock(mutex_);
  ++count_;
  entries_.push_front({place, ranges, stamp});
  return std::unique_ptr<Flight>(new Flight(*this, entries_.begin()));
}

}  // namespace shardproof
