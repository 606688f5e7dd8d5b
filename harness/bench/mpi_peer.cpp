// mpi_peer: the one call of the benchmarks that is not ours.
#include "harness/bench/mpi_peer.h"

#include <mpi.h>

#include "base/error.h"

namespace shardproof::bench {

void plain_all_reduce(const float* send, float* recv, std::size_t count) {
  const int code =
      MPI_Allreduce(send, recv, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (code != MPI_SUCCESS) {
    throw Error(ErrorKind::environment, "MPI_Allreduce",
                "failed with code " + std::to_string(code));
  }
}

}  // namespace shardproof::bench
