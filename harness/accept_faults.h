// accept_faults: the faults of an acceptance run: a wrong dtype in a call, a crash before the
// commit of a checkpoint, a damaged shard; each a scenario on thread ranks (fault_run.h) of a few
// steps of the corpus' Case on its layout. Their points are found, not fixed: see the functions.
// Thread rule: one at a time.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "harness/accept_plan.h"
#include "harness/fault_run.h"

namespace shardproof {

struct PlannedFault {
  std::string check;     // "fault dtype"
  std::string subject;   // "synthetic: dp4.zero1, rank 1 names another dtype in a call"
  std::string sentence;  // what is expected
  FaultKind kind;
  FaultOutcome expected;
};

// Empty for a corpus without faults.
std::vector<PlannedFault> plan_faults(const Corpus& corpus);
// In the order of the plan; fewer when `stop` was set.
std::vector<Verdict> judge_faults(const Corpus& corpus, const std::atomic<bool>* stop);

}  // namespace shardproof
