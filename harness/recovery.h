// recovery: how a run came back from a failure and how long each part of it took, as it is printed
// and as the trace's harness.jsonl keeps it (kind `recovery`). The parts follow one another and
// together last from the failure to the end of the first step that was done after it.
// Of a restart: notice (since the dead rank's last sign of life; of a hang since anybody's; 0 where
// a rank said it itself or is a thread), end (of the other ranks), find (of a checkpoint that is
// whole), wait (what is left of the back-off), start (processes, MPI, communicators, plan), data
// (opened), load (of the checkpoint), step (the first).
// Torch-free. Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace shardproof {

struct Recovery {
  struct Part {
    std::string name;
    double seconds = 0;
  };
  std::string way;         // "restart"
  int number = 1;          // of the recoveries of a run, from 1
  std::string checkpoint;  // id; empty: from the beginning
  std::string layout;
  std::int64_t step = -1;  // the first that was done; -1: none was left
  std::vector<Part> parts;

  double seconds() const;                      // of all parts
  double part(const std::string& name) const;  // 0 where there is none
};

// "restart 1 on dp4.zero1 from step-00000004: step 4 done 1.92 s after the failure: notice 0.01,
// end 0.08, ..."
std::string text(const Recovery& recovery);
Json to_json(const Recovery& recovery);  // without its kind

}  // namespace shardproof
