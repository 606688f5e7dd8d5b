// fault_board: the faults of one run on the thread ranks of this process, and what became of them:
// which fired, and in a discovery which points were passed. Thread rule: any thread.
#pragma once

#include <mutex>
#include <vector>

#include "faults/inject/injector.h"

namespace shardproof {

class FaultBoard {
 public:
  explicit FaultBoard(std::vector<Fault> faults, bool discover = false)
      : faults_(std::move(faults)), discover_(discover) {}

  const std::vector<Fault>& faults() const { return faults_; }
  bool discovers() const { return discover_; }
  void fired(const Fault& fault) {
    const std::scoped_lock lock(mutex_);
    fired_.push_back(fault);
  }
  void passed(const PassedPoint& point) {
    const std::scoped_lock lock(mutex_);
    passed_.push_back(point);
  }
  std::vector<Fault> fired() const {
    const std::scoped_lock lock(mutex_);
    return fired_;
  }
  // In no order across ranks; within a rank in the order of passing.
  std::vector<PassedPoint> passed() const {
    const std::scoped_lock lock(mutex_);
    return passed_;
  }

 private:
  const std::vector<Fault> faults_;
  const bool discover_;
  mutable std::mutex mutex_;
  std::vector<Fault> fired_;
  std::vector<PassedPoint> passed_;
};

}  // namespace shardproof
