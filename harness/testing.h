// testing: what the tests of the harness share: a small Case and a folder that goes away.
#pragma once

#include <filesystem>
#include <string>

#include "train/config.h"

namespace shardproof::testing_support {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shardproof-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string at(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// One block of width 16, V = S = 2, 12 micro-batches of 2 rows: legal on 1, 2, 3, 4 and 6 ranks.
inline Config small_case(const std::string& layout, int steps) {
  Config config;
  config.model.layers = 1;
  config.model.width = 16;
  config.model.heads = 2;
  config.model.vocabulary = 32;
  config.model.sequence = 8;
  config.data.samples = 512;
  config.training.steps = steps;
  config.training.global_batch = 24;
  config.training.micro_batch = 2;
  config.run.layout = layout;
  return config;
}

}  // namespace shardproof::testing_support
