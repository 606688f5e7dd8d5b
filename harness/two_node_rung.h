// two_node_rung: one Case on two ranks, each on a node of its own (two_nodes.h), under a real
// mpirun with a hostfile, as `shardproof train` starts it: the bits of one rank, and a SIGKILL of
// the far rank that is named. That the ranks really talked over the network is seen on the cable.
// Thread rule: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "invariants/verdict.h"
#include "train/config.h"

namespace shardproof {

struct TwoNodeRun {
  Config config;        // of two ranks
  std::string folder;   // of the traces; must not exist
  std::string program;  // the command `shardproof`; empty: this executable is it
  const std::atomic<bool>* stop = nullptr;
};

// Inconclusive where this machine has no mpirun or cannot make two nodes; where they stand,
// whatever keeps the run from its end is a failure.
Verdict judge_two_nodes(const TwoNodeRun& run);

// Why what node 1 has put on the cable cannot be what its rank says it has sent; empty: it can.
// Frames and control traffic come on top: more is right, less went another way.
std::string cable_problem(std::uint64_t carried, std::uint64_t sent);

}  // namespace shardproof
