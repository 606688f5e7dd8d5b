// accept_ladder: `accept --ladder`: climbs the rungs of ladder_rungs.h on one Case, shows a row a
// rung, and leaves the folder that accept leaves: expectations.json (written before the first
// step), legs/, and the report. Thread rule: one at a time per process.
#pragma once

#include <string>
#include <vector>

#include "harness/accept.h"
#include "harness/ladder.h"

namespace shardproof {

struct LadderOptions {
  std::string backend = "threads";  // of the rungs on several ranks
  std::vector<std::string> set;     // KEY=VALUE of the Case
  int rung = 0;                     // this one alone; 0: all
  std::string program;              // the command `shardproof`; empty: this executable is it
};

// The Case: accept's synthetic one, of ten steps. Error bad_input.
Config ladder_case(const LadderOptions& options);

// Climbs, prints and writes the report. Returns the exit code: 0 every rung passes, 1 one fails, 3
// none fails and one could not be verified here, 130 when stopped.
int climb_ladder(const LadderOptions& options, const ProofOptions& proof);

// "  2 two ranks           pass           1.2 s  dp2: the bits ..."
std::string rung_line(const ClimbedRung& rung);

}  // namespace shardproof
