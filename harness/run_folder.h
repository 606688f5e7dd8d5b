// run_folder: a folder, by default in the system's temporary one, for what the processes of one run
// share, removed with this object. Its owner holds a lock (flock) on it, which ends with the
// process however that dies: the next RunFolder of the same user removes what a killed one left.
// Thread rule: any thread; one object per run. Not covered: a temporary folder without locks (some
// network file systems) keeps what is left.
#pragma once

#include <string>

namespace shardproof {

class RunFolder {
 public:
  explicit RunFolder(const std::string& parent = "");  // Error environment
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace shardproof
