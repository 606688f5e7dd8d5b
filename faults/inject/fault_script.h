// fault_script: which faults are to happen in a run and in the runs that recover from it. Read from
// TOML (strict: one Error for the first mistake, with file and line), written as one word a fault,
// or drawn from a seed out of the points of a discovery (fault_draw.h). One line:
//   [RUN/]POINT!KIND[=ARGUMENT][*TIMES], joined by ';'
//   call:1:world:12:before!dtype;1/step:2:13:backward!kill
// RUN 0 (not written) is the first run, 1 the one that recovers from it, and so on. A fault fires
// once, at the first call, operation or step that is its point; with *TIMES at that one and the
// next ones of the same kind, group, moment or phase, as often as said (*0: always).
// Thread rule: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faults/inject/fault_kind.h"

namespace shardproof {

struct Fault {
  FaultPoint point;
  FaultKind kind = FaultKind::kill;
  double argument = 0;  // seconds, factor or bit; without a use: 0
  int times = 1;
  int run = 0;

  std::string text() const;
  bool operator==(const Fault&) const = default;
};

std::string text(const std::vector<Fault>& faults);
// Error bad_input at `place`: the form, an unknown kind, a point that does not fit the kind, an
// argument that the kind does not take or that is out of range.
std::vector<Fault> parse_faults(std::string_view line, const std::string& place);

// A file: what is trained (a Run line without a fault), what happens, and what must come of it.
//   title = "a rank sends another dtype"
//   run = "training.steps=6 run.layout=dp2"
//   recover = "dp1"                            # layout of the runs that recover
//   expect = "detected"                        # survived-equal | detected | refused
//   [[fault]]
//   point = "call:1:world:12:before"
//   kind = "dtype"                             # and: argument, times, run
struct FaultScript {
  std::string title;
  std::string run_line;
  std::string recover;  // layout of the runs that recover; empty: the same
  std::string expect;   // of the last run with a fault; empty: what faults/outcome.h allows
  std::vector<Fault> faults;
};
FaultScript parse_fault_script(std::string_view toml, const std::string& file);
FaultScript load_fault_script(const std::string& path);  // Error bad_input also when unreadable

}  // namespace shardproof
