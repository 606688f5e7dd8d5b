// recorder: the flight recorder of a foreign MPI program: the last operations of this rank in
// words, for dumps and for looks at a wait. A rank whose threads call MPI side by side never counts
// as standing: another thread might end the wait. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/flight_records.h"

namespace shardproof::interpose {

class Recorder {
 public:
  Recorder(int world_rank, std::size_t capacity = 1024);

  void know(const std::string& group, std::vector<int> members);
  // Fills number and times. A message whose peer or tag is not known yet gets its number when it
  // is matched; `issued` false: is not an operation of its own (a probe).
  std::uint64_t begin(OperationRecord operation, bool issued = true);
  void matched(std::uint64_t id, int peer, int tag);
  void stand(std::uint64_t id);  // this thread can only go on when the operation ends
  void leave(std::uint64_t id);
  void end(std::uint64_t id, bool well = true);
  // A receive that was taken back: later ones of its numbering move up.
  void withdraw(std::uint64_t id);
  void finish();  // the program makes no further call
  RankRecords records(std::size_t operations) const;
  std::string place_of(std::uint64_t id) const;  // name_of the operation
  bool is_send(std::uint64_t id) const;

 private:
  struct Entry {
    std::uint64_t id = 0;
    OperationRecord operation;
    bool numbered = false;
    Duration started{}, ended{}, stood{};
  };
  Entry* find(std::uint64_t id);
  const Entry* find(std::uint64_t id) const;
  void number(Entry& entry);
  void pulse();

  const int world_rank_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Entry> ring_;
  std::uint64_t next_id_ = 0;
  std::map<std::string, std::uint64_t> issued_;
  std::map<std::string, std::vector<int>> members_;
  std::set<std::thread::id> threads_;
  std::uint64_t pulses_ = 0;
  Duration last_pulse_;
  bool finished_ = false;
};

}  // namespace shardproof::interpose
