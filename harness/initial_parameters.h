// initial_parameters: that the parameters a fresh run begins with are those of its seed, also where
// a rank alone holds its share and no replica could tell: each rank computes the values of the next
// rank's share anew (they are a function of seed, name and index) and compares digests.
// Thread rule: the rank's thread.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "model/gpt_shape.h"
#include "parallel/plan.h"

namespace shardproof {

// Collective. Error mismatch on all ranks, naming the rank, the parameter and both digests.
// `agreed`: all copies are known to be equal, so that looking at one of each block is enough.
void check_initial_parameters(Communicator& comm, Plan& plan, const GptShape& shape,
                              std::uint64_t seed, bool agreed);

}  // namespace shardproof
