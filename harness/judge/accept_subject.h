// accept_subject: the main job for a program that is not ours: reads its subject file, runs its
// legs, judges their traces and writes the report of harness/report.h. Leaves one folder:
// expectations.json (written before the first leg), legs/, checkpoints/ and the report. Thread
// rule: one at a time per process.
#pragma once

#include <string>
#include <vector>

#include "harness/accept.h"
#include "harness/judge/subject_plan.h"

namespace shardproof {

struct SubjectOptions {
  std::string file;
  SubjectChoice choice;
  std::vector<std::string> set;
};

// Returns the exit code, 130 when stopped. Error bad_input before any folder is made where the
// subject file cannot be meant.
int accept_subject(const SubjectOptions& options, const ProofOptions& proof);

}  // namespace shardproof
