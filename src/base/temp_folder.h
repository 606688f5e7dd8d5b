// temp_folder: a fresh folder for scratch files, removed with all its contents at the end. For
// tests, benchmarks and verbs. Thread rule: one thread.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "base/error.h"

namespace shardproof {

class TempFolder {
 public:
  TempFolder() {  // Error environment
    path_ = (std::filesystem::temp_directory_path() / "shardproof_XXXXXX").string();
    if (::mkdtemp(path_.data()) != nullptr) return;
    throw Error(ErrorKind::environment, path_, std::generic_category().message(errno));
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  std::string read(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }

 private:
  std::string path_;
};

}  // namespace shardproof
