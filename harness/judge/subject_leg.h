// subject_leg: one run of a program that is not ours, contained: in its folder lie trace/ (with
// harness.jsonl: the start, the end, what was left), output.txt and nothing else; its checkpoint
// lies where it was told. It has a deadline, and nothing of it is left behind. How it ended is a
// result, not an exception. Thread rule: any thread, one leg each.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/subject_file.h"
#include "trace/reader.h"

namespace shardproof {

struct KillPlace {
  int rank = 0;
  std::int64_t step = 0;
  std::string phase;
  bool stop = false;  // SIGSTOP, else SIGKILL

  std::string fault() const;  // "1:4:backward:kill", of SHARDPROOF_FAULT
};

struct SubjectLeg {
  std::string name;    // "ddp2.resume": also its folder
  std::string layout;  // "ddp2"
  std::string args{};  // behind the layout's
  bool float64 = false;
  std::string from{};     // the leg whose checkpoint it begins with; empty: it begins afresh
  bool bare = false;      // it is told to resume, and its folder is empty
  bool in_place = false;  // in the very folder of `from`, and afresh where nothing was saved
  std::string after{};    // another leg that must have run before
  std::optional<KillPlace> kill{};
};

struct SubjectLegResult {
  SubjectLeg leg;
  Trace trace;            // empty when there is none
  std::string skipped;    // why it was not started; empty: it was
  bool no_place = false;  // it was not: the program does not come by the place of its kill
  std::string problem;    // how it ended, when not well; empty too for a leg that was to be killed
  std::string unclean;    // its ranks had all ended, its processes not well: "exit code 134"
  bool interrupted = false;
  bool traced = false;   // a rank file was found
  bool stopped = false;  // the rank of its kill was seen stopped
  int exit_code = -1;
  double seconds = 0;
  std::int64_t first = 0;  // step it was to begin with

  bool good() const { return skipped.empty() && problem.empty() && !interrupted; }
};

// Where a leg finds and leaves its files.
struct LegFolders {
  std::string out;  // of the report, absolute
  std::string leg(const std::string& name) const { return out + "/legs/" + name; }
  std::string trace(const std::string& name) const { return leg(name) + "/trace"; }
  std::string checkpoint(const std::string& name) const { return out + "/checkpoints/" + name; }
};

// The launch with its placeholders filled.
std::string command_of(const Subject& subject, const SubjectLeg& leg, const LegFolders& folders,
                       bool resumes);

// `from` has run; its checkpoint is copied unless the leg works in its folder. Error environment
// when nothing can be started, io when the folder takes nothing.
SubjectLegResult run_subject_leg(const Subject& subject, const SubjectLeg& leg,
                                 const LegFolders& folders, const std::atomic<bool>* stop);

// Whether some rank of the trace wrote that a checkpoint is done.
bool has_saved(const Trace& trace);
// Whether the rank entered that phase of that step.
bool passes_place(const Trace& trace, const KillPlace& place);

}  // namespace shardproof
