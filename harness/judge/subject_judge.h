// subject_judge: the verdicts of a plan whose legs have run: how legs ended, what a program that is
// not reproducible cannot be blamed for, and failures that the subject file expects.
// Thread rule: one thread.
#pragma once

#include <functional>
#include <vector>

#include "harness/judge/subject_run.h"

namespace shardproof {

struct SubjectVerdict {
  std::string layout;
  Verdict verdict;
};

struct JudgeOptions {
  std::string out;               // cut out of texts, which then do not depend on where it lies
  std::vector<std::string> set;  // of the command, for replay lines
};

// In the order of the plan. Where a bitwise check fails on a layout that was not run twice, `run`
// runs it twice. An interrupted `run` leaves the verdicts as they are.
std::vector<SubjectVerdict> judge_subject(const Subject& subject, const SubjectPlan& plan,
                                          SubjectRun& run, const JudgeOptions& options);

}  // namespace shardproof
