// mpi_peer: plain MPI_Allreduce, to compare with. Precondition of all: MPI is initialised.
#pragma once

#include <cstddef>

namespace shardproof::bench {

// One all-reduce (fp32, sum) over all processes. Error environment when MPI reports a failure.
void plain_all_reduce(const float* send, float* recv, std::size_t count);

}  // namespace shardproof::bench
