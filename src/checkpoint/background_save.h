// background_save: a checkpoint that is written while training goes on. start() copies what is to
// be saved, so that the state may change as soon as it returns; a thread of this object then runs
// save_checkpoint on a communicator of its own.
// Guarantee: one save at a time: a slow disk delays the next save and never tears one. What save.h
// promises of crashes and failures holds unchanged.
// Memory: one copy of what this rank saves, kept for the next save.
// Collective: all ranks start the same saves in the same order. Torch-free.
// Thread rule: one owner; the communicator and, while a save is under way, the storage are the
// background thread's.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/save.h"

namespace shardproof {

// The label of the communicator that saves in the background use, beside the steps' own.
inline constexpr const char* background_group = "save";

class BackgroundSave {
 public:
  // `comm` is used by nobody else; the storage outlives this object.
  BackgroundSave(Storage& storage, std::unique_ptr<Communicator> comm, SaveAs as = SaveAs::sharded);
  // Waits for a save under way; its failure is then lost: call finish() first.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // A save was started and not yet finished.
  bool under_way() const { return thread_.joinable(); }
  // It needs no more waiting: finish() returns at once. True when none is under way.
  bool ended() const { return ended_.load(); }
  // It ended with an Error.
  bool failed() const { return ended() && failure_ != nullptr; }

  // SP_CHECK: none is under way. Returns when the copy is made.
  void start(const std::string& id, const CheckpointFacts& facts, std::span<const SaveItem> mine);
  // Waits. What it did, or its Error; nothing when none was under way.
  std::optional<SaveReport> finish();

 private:
  std::span<const SaveItem> copy(std::span<const SaveItem> mine);

  Storage& storage_;
  std::unique_ptr<Communicator> comm_;
  const SaveAs as_;
  std::vector<std::byte> bytes_;  // the copy
  std::vector<SaveItem> items_;   // into it
  std::string id_;
  CheckpointFacts facts_;
  SaveReport report_;
  std::exception_ptr failure_;
  std::atomic<bool> ended_{true};
  std::thread thread_;
};

}  // namespace shardproof
