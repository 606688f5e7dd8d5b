// patch_header: what stands above the diff of a planted break, one "Key: value" a line:
//   Mutant  what is planted, one sentence      Bug   the catalogue's id, or -
//   File, Symbol, Library                      what is replaced (read by CMake too)
//   Run     keys of a run line that differ from case.txt beside the patch, or
//   Test    module.test and Case: Suite.Name   where no verdict of a run can tell
//   Verdict the verdict that must fail         Says  words that its reason must hold
//   Why     why nothing weaker catches it; lines that follow belong to it
// Thread rule: pure functions. Not checked here: that the diff applies (CMake does).
#pragma once

#include <string>

namespace shardproof {

struct PatchHeader {
  std::string mutant, bug, file, verdict, says, why;
  std::string run;       // as written
  std::string run_line;  // case.txt with `run` in place; empty for a test
  std::string test, test_case;

  bool is_test() const { return !test.empty(); }
};

// Error bad_input names the key that is missing.
PatchHeader read_patch_header(const std::string& path);
// All patches of a folder as a page of Markdown, ordered by id, then by name.
std::string mutant_table(const std::string& folder);

}  // namespace shardproof
