// append_file: a file to which whole lines are appended, each by one write(2), so that readers see
// complete lines and a killed writer leaves at most one torn line, the last.
// Thread rule: several writers of one file do not mix their lines; one object per thread.
#pragma once

#include <string>
#include <string_view>

namespace shardproof {

class AppendFile {
 public:
  // Creates the file and its folder. A torn last line, left by a killed writer, is cut off: the
  // line after it would be damaged. Error io.
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string line);  // without its newline; Error io

 private:
  void cut_torn_line();

  std::string path_;
  int fd_ = -1;
};

}  // namespace shardproof
