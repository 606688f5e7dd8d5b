// save: writes one checkpoint from all ranks of a group. Shards first, under names no reader looks
// for, fsynced, then their directory and its parent; then the manifest to a temporary file, fsync,
// link(2) to its final name (an id is immutable), directory fsync.
// Guarantee: after a crash at any point the id is either committed and whole or not there, and
// other checkpoints are untouched. Saving an existing id again: success when what is there is whole
// and its state digest, step, cursor, seeds, data and tokenizer are equal (nothing written, but its
// name made durable: its writer may have died before that; one that keeps seeds alone stays so),
// else Error conflict naming both. A failure on one rank is an Error on all of them. Collective;
// torch-free. Thread rule: the rank's thread.
#pragma once

#include <span>
#include <string>

#include "base/piece.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage.h"
#include "comm/communicator.h"

namespace shardproof {

// Bytes of a run of whole blocks of a piece; each block of the state on exactly one rank.
struct SaveItem {
  std::string what;
  PieceSpec piece;
  ElementRange range;  // within the piece, block-aligned
  Dtype dtype = Dtype::f32;
  const void* data = nullptr;
};

struct SaveReport {
  std::string id;
  bool written = true;  // false: the same state was there already
  Digest state_digest;
  std::uint64_t bytes = 0;  // of all shards
  double cpu_seconds = 0;   // that this rank's thread spent on it
};

enum class SaveAs {
  sharded,  // each rank writes what it holds
  full,     // rank 0 gathers everything and writes one file
  seeds,    // no tensor is written, only the state's digest (manifest.h: seeds_alone)
};

// The state digest that a save of these items would have; nothing is written. Collective.
Digest state_digest_of(Communicator& comm, std::span<const SaveItem> mine);

SaveReport save_checkpoint(Storage& storage, Communicator& comm, const std::string& id,
                           const CheckpointFacts& facts, std::span<const SaveItem> mine,
                           SaveAs as = SaveAs::sharded);

}  // namespace shardproof
