// checkpoint_testing: what the tests of this module share: a small state (small_state_testing.h),
// the Error that a call throws, a storage that fails at a chosen operation.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/small_state_testing.h"

namespace shardproof::testing {

// The Error that `body` throws; a test failure when it throws none.
template <typename Body>
Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "expected an Error";
  return Error(ErrorKind::numeric, "no error", "was thrown");
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Counts operations and fails at one of them: `before` it happens, `torn` (half of a write), or
// `after`. A dead storage then refuses everything, as a killed process does.
class FailingStorage : public ForwardingStorage {
 public:
  enum class When { before, torn, after };
  FailingStorage(std::shared_ptr<Storage> inner, int fail_at, When when, bool dead,
                 ErrorKind kind = ErrorKind::io, std::string reason = "No space left on device")
      : ForwardingStorage(std::move(inner)),
        fail_at_(fail_at),
        when_(when),
        dead_(dead),
        kind_(kind),
        reason_(std::move(reason)) {}

  int operations() const { return count_; }
  bool fired() const { return fired_; }
  std::vector<std::string> log() const { return log_; }

  std::unique_ptr<File> create(const std::string& path) override {
    std::unique_ptr<File> file;
    step("create", path, [&] { file = inner().create(path); });
    return std::make_unique<FailingFile>(*this, path, std::move(file));
  }
  void make_directory(const std::string& path) override {
    step("make_directory", path, [&] { inner().make_directory(path); });
  }
  void sync_directory(const std::string& path) override {
    step("sync_directory", path, [&] { inner().sync_directory(path); });
  }
  void link(const std::string& from, const std::string& to) override {
    step("link", to, [&] { inner().link(from, to); });
  }
  void remove(const std::string& path) override {
    step("remove", path, [&] { inner().remove(path); });
  }
  void remove_directory(const std::string& path) override {
    step("remove_directory", path, [&] { inner().remove_directory(path); });
  }
  bool exists(const std::string& path) override {
    bool found = false;
    step("exists", path, [&] { found = inner().exists(path); });
    return found;
  }

 private:
  class FailingFile : public File {
   public:
    FailingFile(FailingStorage& owner, std::string path, std::unique_ptr<File> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      owner_.step(
          "write", path_, [&] { file_->write(bytes); },
          [&] { file_->write(bytes.first(bytes.size() / 2)); });
    }
    void sync() override {
      owner_.step("sync", path_, [&] { file_->sync(); });
    }
    void close() override {
      owner_.step("close", path_, [&] { file_->close(); });
    }

   private:
    FailingStorage& owner_;
    std::string path_;
    std::unique_ptr<File> file_;
  };

  void step(
      const std::string& operation, const std::string& path, const std::function<void()>& whole,
      const std::function<void()>& half = [] {}) {
    const Error error(kind_, operation + " " + path, reason_);
    const int number = count_++;
    log_.push_back(operation + " " + path);
    if (fired_ && dead_) throw error;
    if (number != fail_at_) return whole();
    fired_ = true;
    if (when_ == When::torn) half();
    if (when_ == When::after) whole();
    throw error;
  }

  int fail_at_;
  When when_;
  bool dead_;
  ErrorKind kind_;
  std::string reason_;
  int count_ = 0;
  bool fired_ = false;
  std::vector<std::string> log_;
};

}  // namespace shardproof::testing
