// crash_states: every state in which a crash may leave the disk, by the rules of disk_model.h, for
// a list of operations: after each prefix, each combination of kept and lost name changes, each
// combination of kept and damaged unsynced bytes. Systematic and bounded:
//  - names: all combinations of up to `all_names` pending changes; of more, all that lose or keep
//  at
//    most two, and all that keep a first part of them;
//  - bytes: all combinations where there are at most `all_bytes`; else each file's variants with
//    the other files whole, and with them lost, and all files damaged alike.
// A state (the same names, bytes and promises) is visited once. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "faults/crash_states/disk_model.h"

namespace shardproof::crash {

enum class Names { kept, lost, reordered };  // reordered: a later change without an earlier one

struct CrashState {
  Disk disk;
  std::size_t operations = 0;  // that were carried out before the crash
  Names names = Names::kept;
  Bytes bytes = Bytes::kept;
  bool link_before_bytes = false;    // a new link is there, and not all the bytes of its file
  std::vector<std::size_t> lost;     // operations whose name changes were lost
  std::vector<std::string> damaged;  // files whose unsynced bytes are not all there

  std::string kind() const;  // "names reordered, bytes zeroed"
  // For a failure: the operations before the crash and what became of them.
  std::string explain(const std::vector<Operation>& operations) const;
};

struct Bounds {
  std::size_t all_names = 8;
  std::size_t all_bytes = 64;
};

struct Enumerated {
  std::size_t derived = 0;    // before those that were visited already
  std::size_t different = 0;  // visited
  bool stopped = false;
};

// `visit` returns false to stop.
Enumerated for_each_crash_state(const std::vector<Operation>& operations, const Bounds& bounds,
                                const std::function<bool(const CrashState&)>& visit);

}  // namespace shardproof::crash
