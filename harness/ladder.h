// ladder: rungs that are climbed one at a time, from what is cheap and basic to what is not. A rung
// that fails ends the climb: what stands on it would only fail for the same reason. One that cannot
// be decided here (a right is missing) is no pass, and the climb goes on.
// Thread rule: one climb at a time.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "invariants/verdict.h"

namespace shardproof {

struct Rung {
  std::string name;
  std::string compared;  // one sentence, known before anything runs
  // Sets outcome, reason, difference, notes and, where there is a closer one than the rung itself,
  // replay. An Error is a failure; of kind environment: not decided.
  std::function<Verdict()> judge;
};

struct ClimbedRung {
  int number = 0;  // from 1
  bool reached = false;
  Verdict verdict;  // of one that was not reached: inconclusive
  double seconds = 0;
};

// "pass", "fail", "not verified", "not reached".
std::string_view word(const ClimbedRung& rung);

struct Climb {
  std::vector<ClimbedRung> rungs;
  bool interrupted = false;
};

struct ClimbOptions {
  int only = 0;                                             // the rung of this number alone; 0: all
  std::function<void(const ClimbedRung&)> ended = nullptr;  // also of those not reached
  std::function<std::string(int number)> replay = nullptr;  // of a rung that failed
  const std::atomic<bool>* stop = nullptr;
};

Climb climb(const std::vector<Rung>& rungs, const ClimbOptions& options);

}  // namespace shardproof
