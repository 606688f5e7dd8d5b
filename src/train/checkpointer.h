// checkpointer: the trainer's narrow view of checkpoints. Implemented over checkpoint/ by
// make_checkpointer; the trainer includes no storage and no communicator. Every function is
// collective. Thread rule: the rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/retention.h"
#include "checkpoint/save.h"
#include "parallel/plan.h"

namespace shardproof {

class Communicator;
class Storage;

// What a resume found.
struct Loaded {
  CheckpointFacts facts;
  // Seeds alone are kept: the plan holds the state before step 0 and must be trained up to
  // facts.step, to this state digest.
  std::optional<Digest> recompute{};
};

class Checkpointer {
 public:
  virtual ~Checkpointer() = default;
  // Returns the checkpoint's id. SP_CHECK: no save in the background is under way.
  virtual std::string save(Plan& plan, const CheckpointFacts& facts) = 0;
  // Returns when the state is copied (background_save.h). SP_CHECK: made for it, and the save
  // before has ended.
  virtual void save_in_background(Plan& plan, const CheckpointFacts& facts) = 0;
  // The id of a save in the background that has ended on all ranks since the last call, or that has
  // now been waited for; empty: none. Its Error, if it failed on any.
  virtual std::string ended(bool wait) = 0;
  // Applies the rule on rank 0, when nothing is being saved. What it did, on every rank.
  virtual PruneReport prune(const Retention& retention, const std::set<std::string>& in_use) = 0;
  // Takes checkpoints whose next step is `step` or later out of the way, where no reader looks
  // (checkpoint/set_aside.h). The id of the newest that is left; empty: none.
  virtual std::string set_aside_from(std::int64_t /*step*/) { return ""; }
  // What rank 0 says, on every rank.
  virtual bool decide(bool mine) = 0;
  // Compares `expected` with the manifest, and loads into the plan, each byte once it is verified.
  // Error refused naming each difference, expected and found: data digest (unless the config says
  // data.remix: then the caller compares the sources), tokenizer digest, seeds,
  // the Case keys of the config that determine the bits, the layout under native reduction (any
  // legal one reads what any other wrote under canonical), kernel fingerprint, the set of pieces;
  // or the manifest's first fact that contradicts another (manifest_facts.h); corrupt for damage.
  // Empty id: the newest. After an Error the plan's state is unspecified. The checkpoint's name is
  // durable when it returns.
  virtual Loaded load(Plan& plan, const std::string& id, const CheckpointFacts& expected) = 0;
  // The same for another Case that this one's whole state begins: logical pieces (numerics and
  // training.micro_batch), reduction and kernels may differ, and must; all else is refused as
  // above, and so is a checkpoint of seeds alone. The origin of the facts says what was there and
  // changed.
  virtual Loaded load_new_case(Plan& plan, const std::string& id,
                               const CheckpointFacts& expected) = 0;
  virtual Digest state_digest(Plan& plan) = 0;  // that a save would have now
};

struct SaveHow {
  SaveAs as = SaveAs::sharded;
  bool background = false;  // saves in the background are possible
};
// Collective. The storage outlives it.
std::unique_ptr<Checkpointer> make_checkpointer(Storage& storage, Communicator& comm,
                                                const SaveHow& how = {});

}  // namespace shardproof
