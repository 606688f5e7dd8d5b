// parameter_agreement: after construction or a resume, ranks that hold the same parameters are
// compared. Thread rule: the rank's thread.
#pragma once

#include "mesh/mesh.h"
#include "parallel/plan.h"

namespace shardproof {

// Collective. Ranks along dp and cp hold the same parameters, ranks along tp those that are not
// cut. Under ZeRO 3 every rank of a shard group has its own share: only copies of a share can
// agree. Error mismatch. False: there are copies that were not compared.
bool agree_on_parameters(Mesh& mesh, Plan& plan, bool tied);

}  // namespace shardproof
