// stored_fault: checkpoints that say something else than the run that meets them: another place of
// the data, another mixture, another tokenizer; each manifest whole in itself.
// Thread rule: nobody else is at work on the storage.
#pragma once

#include <string>

#include "checkpoint/storage.h"
#include "faults/inject/fault_kind.h"

namespace shardproof {

// Whether the kind is about what is stored.
bool changes_manifest(FaultKind kind);
// Error bad_input when the checkpoint has nothing of the kind (a mixture).
void change_manifest(Storage& storage, const std::string& id, FaultKind kind);

}  // namespace shardproof
