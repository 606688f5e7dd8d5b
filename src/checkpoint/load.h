// load: finds, verifies and reads checkpoints. A loader verifies before it trusts: every block's
// digest is checked as it is read, and a refusal names the entry and its byte range.
// Torch-free. Thread rule: functions may run on several threads with one Storage.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage.h"

namespace shardproof {

// Committed ids, oldest step first. One whose manifest cannot be read is listed all the same, by
// the step in its id, or last.
std::vector<std::string> list_checkpoints(Storage& storage);

// The same, and what was read of each on the way.
struct ListedCheckpoint {
  std::string id;
  std::int64_t step = 0;
  std::vector<ShardFileRef> files;
  bool seeds_alone = false;
  std::optional<Error> unreadable;  // why its manifest could not be read: then the above is a guess
};
std::vector<ListedCheckpoint> survey_checkpoints(Storage& storage);

Manifest read_manifest(Storage& storage, const std::string& id);  // Error bad_input if no such id

// One thing wrong with a checkpoint.
struct Damage {
  std::string where;  // file, entry and byte range
  std::string expected;
  std::string found;
};

// Checks everything there is: the manifest, every file's size and digest, headers against entries,
// every block digest, coverage of every piece. Empty: it is whole. Error bad_input if no such id.
std::vector<Damage> verify_checkpoint(Storage& storage, const std::string& id);

struct LoadItem {
  std::string what;
  PieceSpec piece;
  ElementRange range;  // block-aligned
  Dtype dtype = Dtype::f32;
  void* data = nullptr;
};

// Reads exactly the blocks asked for, wherever they lie. Error corrupt | refused: a block that
// fails its digest is not copied; what other items then hold is unspecified.
void load_state(Storage& storage, const Manifest& manifest, std::span<const LoadItem> items);

struct StateDifference {
  std::string entry;          // name/what, piece
  std::int64_t element = -1;  // global row-major index in the piece; -1: present on one side only
  std::string left;           // bit patterns in hex
  std::string right;
};

// Pieces that differ, with the first differing element of each. Compares digests first, bytes only
// where they differ. Where a side keeps seeds alone, the state digests are all there is to compare.
// `a` and `b` may lie in different storages.
std::vector<StateDifference> diff_checkpoints(Storage& a, const Manifest& left, Storage& b,
                                              const Manifest& right);

}  // namespace shardproof
