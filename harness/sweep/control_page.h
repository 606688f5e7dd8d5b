// control_page: what the sweep and the processes of a saver share, a file that all of them map: how
// many file operations there were, what they were, and before which one the saver dies. Plain data,
// since the preloaded library uses neither exceptions nor the C++ library.
#pragma once

#include <cstdint>

namespace shardproof {

struct SweepOperation {
  char name[16];  // of the call
  std::int32_t pid;
  std::uint32_t torn;   // it can be half done: a write of two bytes or more
  std::uint64_t bytes;  // that a write asked for
  char path[232];       // within the root, cut to its end when it is longer
  char to[232];         // of a call with two paths
};

constexpr std::uint64_t max_sweep_operations = 1 << 15;

struct ControlPage {
  std::uint64_t count;    // operations that began, over all processes; changed atomically
  std::uint64_t kill_at;  // no operation from this number on (from 1) takes place; 0: none is cut
  std::uint64_t half;     // but half of the bytes of that one, where it is a write
  std::uint64_t fired;    // that operation was reached
  std::uint64_t mapped;   // shared writable mappings of files under the root: not seen further
  SweepOperation operations[max_sweep_operations];
};

constexpr const char* sweep_control_variable = "SHARDPROOF_SWEEP_CONTROL";
constexpr const char* sweep_root_variable = "SHARDPROOF_SWEEP_ROOT";

}  // namespace shardproof
