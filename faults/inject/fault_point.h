// fault_point: an address in a run where something can go wrong: a call of a rank on a group, a
// file operation of a rank, a phase of a step, or a rank's start. A point prints as one word:
//   call:RANK:GROUP:NUMBER:before|inside|after   the rank's calls on a group count from 0
//   file:RANK:NUMBER:before|torn|after           its operations on the checkpoint storage, from 0
//   step:RANK:STEP:PHASE                         on entering a phase (trace/event.h)
//   start:RANK                                   before the rank's first call
// NUMBER may be NAME.NUMBER: it then counts what has this name alone ("all_to_all.3", "link.0").
// Reads and writes of files are operations, as are links, removals, listings and syncs. `torn`:
// half of a write has been done. `inside`: the call has been started, and is not waited for; a
// backend's own chunks are not points. Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/event.h"

namespace shardproof {

enum class PointKind : std::uint8_t { call, file, step, start };
enum class Moment : std::uint8_t { before, inside, torn, after };

struct FaultPoint {
  PointKind kind = PointKind::step;
  int rank = 0;
  std::string group{};       // call: "world", "world/dp.0"
  std::string operation{};   // call, file: number counts what has this name; empty: everything
  std::uint64_t number = 0;  // call, file
  Moment moment = Moment::before;
  std::int64_t step = 0;  // step
  Phase phase = Phase::forward;

  std::string text() const;
  bool operator==(const FaultPoint&) const = default;
};

std::string_view name(PointKind kind);
std::string_view name(Moment moment);

// Error bad_input at `place`, with the forms above.
FaultPoint parse_fault_point(std::string_view text, const std::string& place);

}  // namespace shardproof
