// data_testing: for tests: files that exist while a test runs, and samples as values.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace shardproof {

// A file with these bytes, removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_(testing::TempDir() + "/shardproof_data_" + std::to_string(::getpid()) + "_" +
              std::to_string(next()++)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static int& next() {
    static int count = 0;
    return count;
  }
  std::string path_;
};

inline std::string uint16_bytes(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

struct Sample {
  explicit Sample(int length)
      : tokens(static_cast<std::size_t>(length)), targets(tokens), positions(tokens) {}
  std::vector<std::int32_t> tokens, targets, positions, documents;
  bool operator==(const Sample&) const = default;
};

inline Sample sample_of(const Dataset& data, std::int64_t id, int length) {
  Sample sample(length);
  if (data.packed()) sample.documents.resize(sample.tokens.size());
  data.sample(id, {sample.tokens, sample.targets, sample.positions, sample.documents});
  return sample;
}

}  // namespace shardproof
