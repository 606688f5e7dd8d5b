// disk: what lies under a storage's root at one moment, as a value: names of directories and files,
// and the files' bytes, shared between disks that hold the same. mount() reads it as a Storage.
// Thread rule: values; a mounted disk is read by one thread at a time or by several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof::crash {

struct Content {
  std::shared_ptr<const std::vector<std::byte>> bytes;  // null: a directory
  std::uint64_t id = 0;  // equal where the bytes are, among disks of one enumeration
};

// By path relative to the root; a directory comes before what is in it.
using Disk = std::map<std::string, Content>;

// A view that refuses to change anything (Error io "Read-only file system"). `disk` must outlive
// it.
std::unique_ptr<Storage> mount(const Disk& disk);

// Writes all of it into an empty storage; nothing is synced.
void copy(const Disk& disk, Storage& storage);

}  // namespace shardproof::crash
