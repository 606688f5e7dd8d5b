// sweep_subject: a saver and a loader that are known by their command lines alone, and the folder
// that they share. The saver runs under libshardproof_files.so, which counts its file operations
// and cuts it before one of them; the loader runs without, in a process of its own. Thread rule:
// one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/temp_folder.h"
#include "harness/sweep/command.h"
#include "harness/sweep/control_page.h"

namespace shardproof {

struct SweepCommands {
  std::string root;                // must not exist, or be empty: what is in it is removed
  std::vector<std::string> saver;  // {n} is the number of the save, 1 or 2; {root} the folder
  std::string loader;              // for sh; {root}
  Duration deadline = std::chrono::seconds(120);  // of each run
};

// Where the saver is cut: before operation `at`, or after half of its bytes.
struct Cut {
  std::uint64_t at = 0;  // 0: nowhere
  bool half = false;
};

struct SaveRun {
  CommandResult command;
  std::vector<SweepOperation> operations;  // that began, in their order over all processes
  bool fired = false;
  std::uint64_t mapped = 0;  // files that it maps to be written, whose changes are not seen
};

struct LoadRun {
  int exit_code = -1;
  bool timed_out = false;
  std::string printed;  // stdout
  std::string errors;   // stderr

  bool loaded() const { return !timed_out && exit_code == 0; }
  bool operator==(const LoadRun& other) const {
    return loaded() == other.loaded() && (!loaded() || printed == other.printed);
  }
};

class SweepSubject {
 public:
  // Error refused for a root that holds something; bad_input for commands without what they need;
  // environment when the library is not beside the command.
  explicit SweepSubject(SweepCommands commands);
  ~SweepSubject();  // empties the root

  SaveRun save(int number, Cut cut = {});
  LoadRun load();

  void keep();     // what is in the root is what restore() puts there again, times included
  void restore();  // before any keep(): nothing
  void clear();
  const std::string& root() const { return commands_.root; }

 private:
  std::string filled(std::string text, int number) const;

  SweepCommands commands_;
  TempFolder folder_;
  std::string shim_;
  bool made_root_ = false;
  bool kept_ = false;
};

std::string find_file_shim();  // Error environment

}  // namespace shardproof
