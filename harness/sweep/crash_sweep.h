// crash_sweep: a saver is killed before each of its file operations in turn, and what it leaves is
// loaded by a fresh process. What the loader prints says which state it found: that of the save
// before (OLD), that of the save that was cut (NEW), another one (MIXED), or none (NONE: it ends
// with an error). Guarantee: every operation with the number of the cut or a later one is left
// undone, in whichever process of the saver. Thread rule: one thread.
//
// Not seen: writes through a shared mapping (they are counted as `mapped`), io_uring, system calls
// that do not go through the C library, statically linked programs. A killed process loses no
// unsynced data: power failures are the part of faults/crash_states.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/sweep/sweep_subject.h"

namespace shardproof {

enum class Found { old_state, new_state, mixed, none, hung, not_reached };
std::string_view name(Found found);  // "OLD", "NEW", "MIXED", "NONE", "HUNG", "NOT REACHED"

struct SweepPoint {
  int save = 1;
  Cut cut;
  SweepOperation operation{};
  Found found = Found::none;
  std::string detail{};  // why it is not OLD or NEW: what the loader said, or that nothing was cut
  bool good = false;  // OLD or NEW; before the first save has ended also NONE, if it was so before
};

struct CrashSweep {
  std::vector<SweepPoint> points;
  std::size_t operations[2] = {0, 0};  // of the two saves, uncut
  std::uint64_t mapped = 0;

  std::size_t count(int save, Found found) const;
  bool good() const;  // every point is, and there is one
};

struct SweepChoice {
  bool first = true;  // the save into an empty root
  bool second = true;
  bool torn = false;  // each write is also cut after half of its bytes
};

// What a loader says after the uncut saves. Runs both; the root then holds both.
// Error bad_input unless saves and loads end well and the loader tells the two states apart.
struct Baselines {
  LoadRun empty, old_one, new_one;
  std::vector<SweepOperation> operations[2];
  std::uint64_t mapped = 0;
};
Baselines run_uncut(SweepSubject& subject);

// `seen` hears of each point as it is judged. The root then holds what the last cut left.
CrashSweep sweep_crashes(SweepSubject& subject, const Baselines& baselines,
                         const SweepChoice& choice,
                         const std::function<void(const SweepPoint&)>& seen = {});

}  // namespace shardproof
