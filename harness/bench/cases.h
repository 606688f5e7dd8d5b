// cases: `shardproof bench cases`: how many generated Cases a second can be proven: a world of
// thread ranks set up, one step on a layout and one on one rank, every tensor compared, the world
// torn down. Ratios to what is asked for, and where the time goes.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/config.h"

namespace shardproof::bench {

struct CaseBench {
  std::string name;             // "tiny", "default"
  std::vector<Config> configs;  // taken in turn
  double required = 0;          // cases a second
};
// tiny: 1 block, M x S x V = 8, four ranks of every kind; default: the default Case on dp4.zero1.
std::vector<CaseBench> case_benches();

struct CaseBenchOptions {
  double seconds = 3;  // of each bench
};

// Error when a Case is not equal to its reference.
Json run_case_bench(const CaseBenchOptions& options);
void print_case_bench(const Json& result);
int case_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench
