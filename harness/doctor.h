// doctor: measures on this machine the premises that the laws rest on: the same shape gives the
// same bits on any cache line and from any thread; portable numerics does not depend on instruction
// sets; link(2), fsync and directory sync do what checkpoints need; MPI starts ranks, with or
// without fault tolerance. Reports, never repairs. Not measured: other machines, other folders than
// the one given, networks, power loss. Thread rule: one at a time; starts child processes and
// threads that end before it returns.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace shardproof {

struct Finding {
  std::string name;
  bool ok = false;
  std::string detail;  // what was measured, or what is lacking and how to get it

  Json to_json() const;
};

// `directory`: where checkpoints would be written; must exist.
std::vector<Finding> diagnose(const std::string& directory);
int exit_code(const std::vector<Finding>& findings);  // 0 when all are ok, else 3

// The single measurements.
Finding alignment_finding();  // fast kernels: at::mm on buffers that begin elsewhere
Finding thread_finding();     // fast kernels: at::mm from several threads at once
Finding portable_finding();   // children whose libraries may use narrower instructions only
Finding storage_finding(const std::string& directory);
Finding mpi_finding();
Finding machine_finding();  // cores, instruction sets, versions: always ok

// SHA-256 over results of the kernels that training uses, on fixed inputs, with the numerics of
// this process set to portable or fast. Error refused when the other kind has run in it.
std::string kernel_digest(bool portable);

}  // namespace shardproof
