// buffers_in_flight: the memory that operations under way on one rank read and write. A buffer that
// is used again before the operation has ended is found and named: by another operation (its
// memory overlaps, and one of both writes), or by the program itself (what was to be sent has
// changed). The latter is seen through samples of up to 64 words: a change that leaves all of them
// alone is not. Thread rule: any thread.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"

namespace shardproof {

class BuffersInFlight {
 public:
  // One operation's memory, from start() until it is destroyed.
  class Flight {
   public:
    ~Flight();
    Flight(const Flight&) = delete;
    // Error mismatch when what is sent is not what was there at the start.
    void check_unchanged() const;

   private:
    friend class BuffersInFlight;
    struct Entry;
    Flight(BuffersInFlight& owner, std::list<Entry>::iterator entry)
        : owner_(owner), entry_(entry) {}
    BuffersInFlight& owner_;
    const std::list<Entry>::iterator entry_;
  };

  BuffersInFlight();
  ~BuffersInFlight();

  // Error mismatch when the call's buffers overlap those of an operation under way, and one of both
  // writes. `place` names the call.
  void check(const Call& call, int rank, const std::function<std::string()>& place) const;
  // The same, and from here on it is under way.
  std::unique_ptr<Flight> start(const Call& call, int rank, const std::string& place);

 private:
  mutable std::mutex mutex_;
  std::list<Flight::Entry> entries_;
  std::atomic<int> count_{0};
};

}  // namespace shardproof
