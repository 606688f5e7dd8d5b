// rank_faults: the faults of one rank in one run, at every place where they can enter: its calls,
// its file operations, its phases and its start. A rank without faults has none of this around it.
// On processes each firing is a line of DIR/faults.rank_00000.jsonl beside the trace, written
// before the fault has any effect. Thread rule: one per rank; its hooks on the rank's thread.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/communicator.h"
#include "harness/fault_board.h"
#include "harness/world.h"

namespace shardproof {

// A thread rank that was ended by a fault: nobody reports for it.
class SimulatedDeath : public std::exception {
 public:
  explicit SimulatedDeath(FaultPoint at) : at_(std::move(at)) {}
  const FaultPoint& at() const { return at_; }
  const char* what() const noexcept override { return "a simulated death"; }

 private:
  FaultPoint at_;
};

// Ends a wait that nothing else would end: ranks that stand still.
class StandStill {
 public:
  explicit StandStill(int ranks) : ranks_(ranks) {}
  // Until release(), or until every rank has ended or stands still. False: nobody is left to wait
  // for this one, and so to find out.
  bool wait();
  void release();  // for good
  void ended();    // one rank more makes no further call

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int ranks_;
  int standing_ = 0;
  int ended_ = 0;
  bool released_ = false;
};

// Of a thread rank: `die` makes its peers see its death.
std::shared_ptr<RankPowers> thread_powers(std::function<void()> die, StandStill& still);
// Of this process: the system calls.
std::shared_ptr<RankPowers> process_powers();

class RankFaults {
 public:
  RankFaults(const RunRequest& request, int rank, std::shared_ptr<RankPowers> powers);

  // The request as this rank was given it: changed where a fault says so.
  RunRequest started(RunRequest request);
  std::unique_ptr<Communicator> outer(std::unique_ptr<Communicator> comm) const;
  std::unique_ptr<Communicator> wire(std::unique_ptr<Communicator> comm) const;
  std::shared_ptr<Storage> storage(std::shared_ptr<Storage> inner) const;
  std::unique_ptr<Hooks> hooks(Hooks& next) const;  // calls `next`, then what is due

 private:
  std::shared_ptr<Injector> injector_;
  struct Groups;
  std::shared_ptr<Groups> groups_;
  bool other_parameters_ = false;
};

// Null: the run has no faults of the injector (run.fault in the form of fault_script.h, or a
// board). Error bad_input for a rank that is not in the layout.
std::unique_ptr<RankFaults> rank_faults(const RunRequest& request, int rank,
                                        std::shared_ptr<RankPowers> powers);
// The faults of a config; those in the form of the trace (rank:step:phase:kill) are not among them.
std::vector<Fault> injected_faults(const Config& config);
bool is_injected(const std::string& fault);        // the form of fault_script.h
void check_injected_faults(const Config& config);  // Error bad_input

}  // namespace shardproof
