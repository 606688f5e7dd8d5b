// verify: the parts of verify_checkpoint, so that ranks can share the work.
// Thread rule: several threads may check different files.
#pragma once

#include <vector>

#include "checkpoint/load.h"
#include "comm/communicator.h"

namespace shardproof {

// Everything wrong with one file of a manifest: size, header against entries, the digests of the
// head, of every block and of the file. One pass over it. Adjacent damaged blocks are one Damage.
std::vector<Damage> verify_file(Storage& storage, const Manifest& manifest,
                                const ShardFileRef& file);

// Collective: every rank reads the manifest. Error on all ranks unless they read the same one and
// every file has its size and its head, whose tensors are the manifest's: corrupt naming the first
// damage, bad_input if there is no such id. Of every byte of a file that is left, one digest is in
// the manifest: whoever reads it with load_state verifies it then.
Manifest open_checkpoint(Storage& storage, Communicator& comm, const std::string& id);

// The same, and all bytes are verified: each rank reads every size()-th file.
Manifest read_whole(Storage& storage, Communicator& comm, const std::string& id);
// The same, and rank 0 makes its name durable: its writer may have died between its link and the
// sync after it, and a run that goes on from it must not lose it to a later power failure.
Manifest read_durable(Storage& storage, Communicator& comm, const std::string& id);

}  // namespace shardproof
