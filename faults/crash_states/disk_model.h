// disk_model: what a disk may hold after a crash, given the operations before it. The rules, and
// nothing else is promised:
//  - An fsync of a file makes all bytes written to it before durable; not its names.
//  - An fsync of a directory makes all names added to it and removed from it before durable; not
//    the files' bytes, and not the directory's own name in its parent.
//  - Names changed since, in any directory, are each there or not, in any combination: also a
//    later one without an earlier one. Changes of one name keep their order.
//  - Bytes written since are there, lost (the file ends before them), cut anywhere, or the file has
//    its full length with zeros or stale blocks for all of them or for one half, whether or not
//    its name is there: also under a name that a link gave it.
// This is the weakest file system that POSIX allows and that is known to exist: delayed allocation
// and data=writeback give the lost, cut, zeroed and stale bytes; reordered names are what
// "All File Systems Are Not Created Equal" (ALICE, OSDI 2014, table 1) found between directory
// operations, and "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing" (B3 and
// CrashMonkey, OSDI 2018) on btrfs and F2FS. ext4 data=ordered allows a subset. Not modelled: a
// synced byte that rots (verify is about that), a failed fsync that drops pages and a disk whose
// cache lies about a flush.
// Thread rule: one thread.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "faults/crash_states/disk.h"
#include "faults/crash_states/journal.h"

namespace shardproof::crash {

enum class Bytes { kept, lost, torn, zeroed, stale };

class DiskModel {
 public:
  // A name added to a directory, or removed, since that directory was synced.
  struct Change {
    std::size_t operation = 0;  // the how-manieth applied
    int directory = 0;
    std::string name;
    int node = -1;  // -1: removed
    bool link = false;
  };
  // What unsynced bytes may have become; the first is that all are there.
  struct Variant {
    Bytes bytes = Bytes::kept;
    Content content;
  };
  // A disk on which some files have unsynced bytes: `open` are their paths, each to be given one of
  // its variants.
  struct Tree {
    Disk disk;
    std::vector<std::pair<std::string, int>> open;  // path, node
  };

  DiskModel();
  void apply(const Operation& operation);
  const std::vector<Change>& changes() const { return changes_; }  // in order
  Tree tree(const std::vector<bool>& kept) const;                  // one per change
  const std::vector<Variant>& variants(int node);

 private:
  struct Node {
    bool directory = true;
    std::map<std::string, int> durable;  // names, of a directory
    std::map<std::string, int> now;
    std::vector<std::byte> synced;               // of a file
    std::vector<std::vector<std::byte>> writes;  // since
    std::vector<Variant> variants;               // empty: to be made
  };

  int find(const std::string& path) const;  // -1: none
  void change(const std::string& path, int node, bool link);
  void sync_names(int directory);
  void walk(const std::string& prefix, int directory,
            const std::vector<std::map<std::string, int>>& names, Tree& tree) const;
  Content content(std::vector<std::byte> bytes);

  std::vector<Node> nodes_;   // 0 is the root
  std::map<int, int> files_;  // journal's number -> node
  std::vector<Change> changes_;
  std::size_t applied_ = 0;
  std::unordered_map<std::string, std::uint64_t> ids_;  // bytes -> Content::id
};

}  // namespace shardproof::crash
