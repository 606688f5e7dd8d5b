// elastic: a row of `shardproof bench recovery`: the default Case on four rank processes of an
// elastic run, a checkpoint after each step; one gets SIGKILL and three go on. Parts: notice (until
// a survivor stopped for it, and what is between this process and the ranks), then those of
// harness/elastic_run.h. Thread rule: as launcher.h.
#pragma once

#include <string>
#include <vector>

#include "harness/recovery.h"

namespace shardproof::bench {

struct ElasticRecovery {
  double seconds = 0;  // from the signal to the end of the next step
  std::vector<Recovery::Part> parts;
};

// `program`: the command `shardproof`; empty: this executable is it. Error mismatch when nobody
// went on.
ElasticRecovery measure_elastic(const std::string& program);

}  // namespace shardproof::bench
