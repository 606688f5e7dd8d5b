// comm: `shardproof bench comm`: the median time of an all-reduce (fp32, sum) by size, on rank 0,
// on thread ranks, on our MPI ranks and by plain MPI_Allreduce, in one run on this machine. The two
// on MPI share their processes and take turns. Not measured: other collectives, several machines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"

namespace shardproof::bench {

struct CommBenchOptions {
  int ranks = 4;
  bool quick = false;  // a tenth of the repeats
};

// {"ranks":4,"cores":2,"mpi":"Open MPI ..","rows":[{"bytes":4096,"threads_us":..,"mpi_us":..,
//  "plain_us":..}],"asked":[{"what":"..","limit_us":..,"got_us":..,"met":true}]}
// Without an mpirun the MPI columns and what is asked relative to them are left out.
Json run_comm_bench(const CommBenchOptions& options);
void print_comm_bench(const Json& result);
// 0: everything that is asked is met; 1: something is not; 3: something could not be compared.
int comm_bench_status(const Json& result);

// The body of one MPI rank (a hidden verb that run_comm_bench starts); returns its exit code.
struct Control {
  std::string address;
  std::string token;
  int rank = 0;
};
int comm_bench_rank(const Control& control, bool quick);

}  // namespace shardproof::bench
