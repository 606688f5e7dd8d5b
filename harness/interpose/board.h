// board: how the ranks of a machine learn of each other without MPI: a folder with a small mapped
// table (who is here, the number of the last look) and a file of records for each rank. A thread of
// each process answers looks and writes the flight dump when a verdict is there; it reads memory
// and files only, and never calls MPI. Ranks on other machines are not on this board.
// Thread rule: any thread; the constructor and remove: one.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/flight_records.h"

namespace shardproof::interpose {

class Board {
 public:
  struct Ways {
    std::function<RankRecords(std::size_t operations)> records;
    std::string dumps;  // empty: no dumps
  };
  // `folder`, the same on all ranks, gets the machine's name. Error environment.
  Board(const std::string& folder, int rank, int size, Ways ways);
  ~Board();
  Board(const Board&) = delete;

  // A name below `parent` that no living job has.
  static std::string new_folder(const std::string& parent);
  // What jobs of this user on this machine have left below `parent`, of which no process lives.
  static void sweep(const std::string& parent);

  std::uint32_t ask();                      // begins a look
  bool answered(std::uint32_t look) const;  // by all that run here
  FlightRecords read(std::uint32_t look) const;
  bool claim_verdict();  // true for the first; all ranks write their dumps
  bool dumped() const;   // by all that run here
  void remove();         // the folder

 private:
  struct Slot;
  struct Table;
  void work();
  void answer(std::uint32_t look) const;
  void dump() const;
  RankLife life(int rank) const;

  const std::string folder_;
  const int rank_, size_;
  const Ways ways_;
  Table* table_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace shardproof::interpose
