// gathered_shard: the shards of all ranks as one file, written by rank 0, which receives the bytes
// of the others a chunk at a time. For storage that only one machine reaches, or that likes few
// files. Memory: one chunk above the state. Collective; torch-free. Thread rule: the rank's thread.
#pragma once

#include <map>
#include <span>
#include <string>

#include "checkpoint/shard_file.h"
#include "comm/communicator.h"

namespace shardproof {

// On rank 0 what write_shard gives for the items of all ranks, in rank order; elsewhere nothing.
// An Error of the writing is rank 0's alone, after every other rank has sent what it had. A null
// storage computes entries and digests and writes nothing.
WrittenShard write_gathered(Storage* storage, Communicator& comm, const std::string& path,
                            const std::map<std::string, std::string>& metadata,
                            std::span<const SaveItem> mine);

}  // namespace shardproof
