// verify: the parts of verify_checkpoint, so that ranks can share the work.
// Thread rule: several threads may check different files.
#pragma once

#include <vector>

#include "checkpoint/load.h"
#include "comm/communicator.h"

namespace shardproof {

// Everything wrong with one file of a manifest: size, header against entries, every block's digest,
// the digest of the whole. One pass over the file. Adjacent damaged blocks are one Damage.
std::vector<Damage> verify_file(Storage& storage, const Manifest& manifest,
                                const ShardFileRef& file);

// Collective: every rank reads the manifest, each checks every size()-th file. Error on all ranks
// unless they read the same manifest and all files are whole: corrupt naming the first damage,
// bad_input if there is no such id.
Manifest read_whole(Storage& storage, Communicator& comm, const std::string& id);
// The same, and rank 0 makes its name durable: its writer may have died between its link and the
// sync after it, and a run that goes on from it must not lose it to a later power failure.
Manifest read_durable(Storage& storage, Communicator& comm, const std::string& id);

}  // namespace shardproof
