// checkpointer: the trainer's narrow view of checkpoints. Implemented over checkpoint/ by
// make_checkpointer; the trainer includes no storage and no communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/manifest.h"
#include "parallel/plan.h"

namespace shardproof {

class Communicator;
class Storage;

class Checkpointer {
 public:
  virtual ~Checkpointer() = default;
  // Collective. Returns the checkpoint's id.
  virtual std::string save(Plan& plan, const CheckpointFacts& facts) = 0;
  // Collective. Verifies, compares `expected` with the manifest (Error refused naming what differs:
  // data, tokenizer, Case, layout), loads into the plan. Empty id: the newest.
  virtual CheckpointFacts load(Plan& plan, const std::string& id,
                               const CheckpointFacts& expected) = 0;
};

std::unique_ptr<Checkpointer> make_checkpointer(Storage& storage, Communicator& comm);

}  // namespace shardproof
