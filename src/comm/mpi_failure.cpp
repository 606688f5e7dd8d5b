// mpi_failure: the only file that knows ULFM; its second half is for libraries without it.
#include "comm/mpi_failure.h"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace shardproof {

#if defined(OMPI_HAVE_MPI_EXT_FTMPI) && OMPI_HAVE_MPI_EXT_FTMPI

bool ulfm_compiled() {
  return true;
}

std::vector<int> dead_ranks(MPI_Comm comm) {
  MPI_Group failed = MPI_GROUP_NULL;
  int size = 0;
  if (MPIX_Comm_get_failed(comm, &failed) != MPI_SUCCESS) return {};
  MPI_Group_size(failed, &size);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  if (size > 0) {
    std::vector<int> numbers(ranks.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Comm_group(comm, &all);
    MPI_Group_translate_ranks(failed, size, numbers.data(), all, ranks.data());
    MPI_Group_free(&all);
    std::sort(ranks.begin(), ranks.end());
  }
  MPI_Group_free(&failed);
  return ranks;
}

void make_progress(MPI_Comm comm) {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
}

void revoke_comm(MPI_Comm comm) {
  MPIX_Comm_revoke(comm);
}

bool is_revoked(MPI_Comm comm) {
  int flag = 0;
  return MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag != 0;
}

bool means_revoked(int code) {
  return code == MPIX_ERR_REVOKED;
}

bool means_peer_died(int code) {
  return code == MPIX_ERR_PROC_FAILED || code == MPIX_ERR_PROC_FAILED_PENDING;
}

int start_agreement(MPI_Comm comm, int* flags, MPI_Request* request) {
  return MPIX_Comm_iagree(comm, flags, request);
}

int shrink_comm(MPI_Comm comm, MPI_Comm* survivors) {
  return MPIX_Comm_shrink(comm, survivors);
}

#else

bool ulfm_compiled() {
  return false;
}

std::vector<int> dead_ranks(MPI_Comm) {
  return {};
}

void make_progress(MPI_Comm) {}  // is_revoked probes

void revoke_comm(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int peer = 0; peer < size; ++peer) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (peer == rank) continue;
    if (MPI_Isend(nullptr, 0, MPI_BYTE, peer, revoke_tag, comm, &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

bool is_revoked(MPI_Comm comm) {
  int flag = 0;
  return MPI_Iprobe(MPI_ANY_SOURCE, revoke_tag, comm, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
         flag != 0;
}

bool means_revoked(int) {
  return false;
}
bool means_peer_died(int) {
  return false;
}

int start_agreement(MPI_Comm, int*, MPI_Request*) {
  SP_CHECK(false, "agreement on a broken group needs ULFM");
}

int shrink_comm(MPI_Comm, MPI_Comm*) {
  SP_CHECK(false, "shrink needs ULFM");
}

#endif

}  // namespace shardproof
