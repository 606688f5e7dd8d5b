// mpi_agreement: ULFM's agreement under a deadline. Internal to the MPI backend.
#pragma once

#include <cstdint>

#include "comm/mpi_group.h"

namespace shardproof {

// The bitwise or of `flags` over the ranks that are alive, also on a broken group. Precondition:
// ulfm_compiled(). Thread rule: the owner's thread.
std::uint64_t agree_with_ulfm(MpiGroup& group, std::uint64_t flags, Deadline deadline);

}  // namespace shardproof
