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
  // Collective. Verifies everything, compares `expected` with the manifest, loads into the plan.
  // Error refused naming each difference, expected and found: data digest, tokenizer digest, seeds,
  // the Case keys of the config that determine the bits, the layout under native reduction (any legal
  // one reads what any other wrote under canonical), kernel fingerprint, the set of pieces; or the manifest's first fact that
  // contradicts another (manifest_facts.h); corrupt for damage. Empty id: the
  // newest. After an Error the plan's state is unspecified.
  virtual CheckpointFacts load(Plan& plan, const std::string& id,
                               const CheckpointFacts& expected) = 0;
};

std::unique_ptr<Checkpointer> make_checkpointer(Storage& storage, Communicator& comm);

}  // namespace shardproof
