// scenarios: every use of checkpoints whose crashes are looked at. A new one is a line here (or in
// a test): Scenario{"remove one", three_checkpoints, once([](CrashWorld& w) { w.release("step-2");
// remove_checkpoint(*w.storage(), "step-2"); })}.
#pragma once

#include <vector>

#include "faults/crash_states/survey.h"

namespace shardproof::crash {

// A scenario without turns.
std::function<bool(CrashWorld&, int)> once(std::function<void(CrashWorld&)> happens);

void one_checkpoint(CrashWorld& world);  // "step-1", the state of seed 1, written by two ranks

std::vector<Scenario> plain_saves();  // first and later saves on 1, 2 and 3 ranks
std::vector<Scenario> other_saves();  // in the background, on 1, 2 and 3 ranks; into one file
std::vector<Scenario>
interrupted_saves();  // a save after a killed or a failed one, at any operation
// A save is killed at each operation in turn; then a fresh process goes on from the newest
// checkpoint that it finds: from there on it must not be lost. `reader`: between it and the disk.
Scenario found_after_a_kill(const Journal::Hook& reader = {});
std::vector<Scenario> two_writers();  // of one id, one within the other at any operation

void three_checkpoints(CrashWorld& world);  // "step-1", "step-2", "step-3", of their seeds
std::vector<Scenario> prunings();           // to the newest, whole or again after a killed one

// A crash while a fresh process saves on a disk that an earlier crash of `first` has left: one
// scenario for each of that crash's states of which `keep` says so (its argument counts them).
std::vector<Scenario> second_crashes(const Scenario& first,
                                     const std::function<bool(std::size_t)>& keep);

}  // namespace shardproof::crash
