// subject_file: what a user says of a training program that is not ours: the command that starts it
// and the layouts it has. TOML, or JSON with the same keys; strict: an unknown key, a wrong type, a
// placeholder that is missing or unknown or a layout without ranks is Error bad_input naming file,
// key and what to add. Every key is also set by subject.KEY=VALUE and layout.NAME.KEY=VALUE, which
// counts as if it stood in the file. Thread rule: values; pure but for load_subject.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

// The checks of a subject, in the order of a report.
inline constexpr std::string_view subject_checks[] = {"live",   "cover", "repeat", "layout",
                                                      "resume", "kill",  "data",   "checkpoint"};
bool is_subject_check(std::string_view name);

struct SubjectLayout {
  std::string name;  // of letters, digits, _ and -: it names folders
  int ranks = 0;
  std::string args;
  bool bitwise = false;         // claims the bits of layout ref
  std::optional<bool> reshard;  // also judged from ref's checkpoint; empty: as subject
  std::optional<std::vector<std::string>> checks;  // only these; empty: all
  std::map<std::string, std::string> expect;       // check that must fail here: why

  bool asks(std::string_view check) const;  // whether `checks` allows it
};

struct Subject {
  std::string file;    // as the user named it
  std::string folder;  // of the file: where legs run
  std::string digest;  // SHA-256 of the file as it was read
  std::string text;    // all that was said, a TOML line each; what the command line set counts
  std::string launch;
  std::string resume;    // in place of {resume}
  std::string float64;   // in place of {dtype}; empty: the program has none
  std::string reversed;  // benign variants, behind {args}; empty: none
  std::string accumulate;
  std::string checkpoint;  // dcp | safetensors | torch | shardproof | none
  bool reshard = false;    // a checkpoint loads on another layout
  double deadline = 120;   // seconds, of each leg
  int at_once = 1;         // legs that may run side by side: each needs ports of its own
  std::int64_t steps = 6;
  std::int64_t save = 3;  // the checkpoint's step: the next one to do
  std::string match;      // of tensor names; empty: all
  std::string kill;       // the layout that is killed; empty: the largest that all checks apply to
  std::string scalars = "trace";       // trace | torchtitan | megatron | tensorboard
  std::vector<SubjectLayout> layouts;  // as they stand in the file

  bool saves() const { return checkpoint != "none"; }
  bool traces() const { return scalars == "trace"; }
  bool has_placeholder(std::string_view name) const;         // of the launch: "dtype"
  const SubjectLayout& layout(std::string_view name) const;  // SP_CHECK: there is one
  const SubjectLayout& reference() const { return layout("ref"); }
};

// `set`: KEY=VALUE; a value is a number, true or false, a bare text, or JSON.
Subject load_subject(const std::string& path, const std::vector<std::string>& set = {});
// `file` names the text in errors and ends in .toml or .json.
Subject parse_subject(std::string_view text, const std::string& file,
                      const std::vector<std::string>& set = {});

}  // namespace shardproof
