// dcp: checkpoints of torch.distributed.checkpoint: a folder with .metadata, a pickle that says
// which chunk of which tensor lies where, and files whose parts are archives of torch.save. The
// pickle is read, not executed. Thread rule: one thread.
#pragma once

#include "checkpoint/foreign/checkpoint.h"

namespace shardproof::foreign {

constexpr const char* dcp_metadata = ".metadata";

void read_dcp(Checkpoint& checkpoint);

}  // namespace shardproof::foreign
