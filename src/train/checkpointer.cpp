// checkpointer: see checkpointer.h. Strict resume: whatever determines the bits must be what it
// was, and every byte is verified before the first one is believed.
#include "train/checkpointer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/background_save.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/set_aside.h"
#include "checkpoint/storage.h"
#include "checkpoint/verify.h"
#include "comm/communicator.h"
#include "mesh/layout.h"
#include "train/config.h"
#include "train/manifest_facts.h"
#include "train/plan_items.h"

namespace shardproof {
namespace {

constexpr const char* saved_kinds[] = {"param", "exp_avg", "exp_avg_sq", "master"};

// What this run expects and what the checkpoint holds, one sentence a difference.
class Differences {
 public:
  void compare(const std::string& what, const std::string& expected, const std::string& found) {
    if (expected != found) add(what, expected, found);
  }
  void add(const std::string& what, const std::string& expected, const std::string& found,
           const std::string& note = "") {
    text_ += fmt::format("{}{}: expected {}, found {}{}", text_.empty() ? "" : "; ", what,
                         expected.empty() ? "nothing" : expected, found.empty() ? "nothing" : found,
                         note);
  }
  void refuse(const std::string& place) const {
    if (!text_.empty()) throw Error(ErrorKind::refused, place, text_);
  }

 private:
  std::string text_;
};

// Whether this run was told to go on with other weights or more sources. What may then differ is
// compared source by source with the data cursor, by the loader.
bool remixes(const Config& ours, const Config& theirs) {
  return ours.data.remix && !ours.data.sources.empty() && !theirs.data.sources.empty();
}

void compare_configs(Differences& differences, const Config& expected, const Config& found) {
  const Json ours = case_json(expected), theirs = case_json(found);
  for (const auto& section : ours.items()) {
    for (const auto& key : section.value().items()) {
      const std::string name = section.key() + "." + key.key();
      const Json& there = theirs.at(section.key()).at(key.key());
      const bool mixture = name == "data.sources";
      if (key.value() == there || (mixture && remixes(expected, found))) continue;
      differences.add(name, key.value().dump(), there.dump(),
                      mixture
                          ? " (a resume with data.remix=true keeps each source's place and goes "
                            "on with the new weights)"
                          : "");
    }
  }
}

// Under canonical reduction a layout says only who holds what: any reads what any wrote. Native
// sums follow the layout, and so do the bits.
void compare_layouts(Differences& differences, const CheckpointFacts& expected,
                     const CheckpointFacts& found) {
  const Layout ours = parse_layout(expected.layout), theirs = parse_layout(found.layout);
  const Config config = parse_config_json(expected.config.dump(), "this run's config");
  if (ours == theirs || config.numerics.reduction == "canonical") return;
  differences.add("layout", ours.print(), theirs.print(),
                  " (native reduction adds in an order of the layout's own)");
}

void require_expected(const CheckpointFacts& expected, const Manifest& manifest) {
  const CheckpointFacts& found = manifest.facts;
  require_consistent(contradictions(found), "checkpoint " + manifest.id);
  Differences differences;
  const Config ours = parse_config_json(expected.config.dump(), "this run's config");
  const Config theirs =
      parse_config_json(found.config.dump(), "config of checkpoint " + manifest.id);
  if (!remixes(ours, theirs)) {
    differences.compare("data digest", expected.data_digest, found.data_digest);
  }
  differences.compare("tokenizer digest", expected.tokenizer_digest, found.tokenizer_digest);
  differences.compare("template digest", expected.template_digest, found.template_digest);
  differences.compare("packing", expected.packing, found.packing);
  differences.compare("parameter groups", expected.parameter_groups.dump(),
                      found.parameter_groups.dump());
  differences.compare("seeds", expected.seeds.dump(), found.seeds.dump());
  compare_configs(differences, ours, theirs);
  compare_layouts(differences, expected, found);
  differences.compare("kernel fingerprint", expected.kernel_fingerprint, found.kernel_fingerprint);
  differences.refuse(fmt::format("resume from checkpoint {}", manifest.id));
}

class StoredCheckpoints : public Checkpointer {
 public:
  StoredCheckpoints(Storage& storage, Communicator& comm, const SaveHow& how)
      : storage_(storage), comm_(comm), as_(how.as) {
    if (!how.background) return;
    background_ = std::make_unique<BackgroundSave>(
        storage, comm.split(0, comm.rank(), background_group, default_deadline(comm)), how.as);
  }

  std::string save(Plan& plan, const CheckpointFacts& facts) override {
    SP_CHECK(!background_ || !background_->under_way(), "a save is under way");
    return save_checkpoint(storage_, comm_, step_id(facts.step), facts, save_items(plan), as_).id;
  }

  void save_in_background(Plan& plan, const CheckpointFacts& facts) override {
    SP_CHECK(background_ != nullptr, "not made for saves in the background");
    background_->start(step_id(facts.step), facts, save_items(plan));
  }

  // Ranks end at different times, and must speak of it after the same step.
  std::string ended(bool wait) override {
    if (!background_ || !background_->under_way()) return "";
    std::int64_t going_on = background_->ended() || wait ? 0 : 1;
    all_reduce(comm_, &going_on, &going_on, 1, Dtype::i64, ReduceOp::max);
    if (going_on != 0) return "";
    return background_->finish()->id;
  }

  PruneReport prune(const Retention& retention) override {
    if (retention == Retention{}) return {};
    const std::string text = agreed(comm_, [&]() -> std::string {
                               if (comm_.rank() != 0) return "";
                               const PruneReport report = shardproof::prune(storage_, retention);
                               return Json{report.removed, report.kept_because}.dump();
                             }).front();
    const Json json = parse_json(text, "prune");
    return {json.at(0).get<std::vector<std::string>>(), json.at(1).get<std::string>()};
  }

  std::string set_aside_from(std::int64_t step) override {
    return agreed(
               comm_,
               [&] { return comm_.rank() == 0 ? shardproof::set_aside_from(storage_, step) : ""; })
        .front();
  }

  bool decide(bool mine) override {
    std::int64_t word = mine ? 1 : 0;
    broadcast(comm_, &word, 1, Dtype::i64, 0);
    return word != 0;
  }

  CheckpointFacts load(Plan& plan, const std::string& id,
                       const CheckpointFacts& expected) override {
    const Manifest manifest = read_whole(storage_, comm_, id.empty() ? newest() : id);
    agreed(comm_, [&] {
      require_expected(expected, manifest);
      return std::string();
    });
    const std::vector<LoadItem> items = load_items(plan, manifest);
    agreed(comm_, [&] {
      load_state(storage_, manifest, items);
      return std::string();
    });
    plan.loaded();
    return manifest.facts;
  }

 private:
  static std::vector<SaveItem> save_items(Plan& plan) {
    std::vector<SaveItem> items;
    for (const char* kind : saved_kinds) append_items(items, plan, kind, kind);
    return items;
  }

  std::string newest() {
    return agreed(comm_,
                  [&]() -> std::string {
                    if (comm_.rank() != 0) return "";
                    const std::vector<std::string> ids = list_checkpoints(storage_);
                    if (ids.empty()) {
                      throw Error(ErrorKind::bad_input, "resume",
                                  "there is no checkpoint to resume from");
                    }
                    return ids.back();
                  })
        .front();
  }

  // What this rank reads: each block on one rank, the plan spreads the rest. Refuses a checkpoint
  // that holds anything which no rank of this plan has a place for.
  std::vector<LoadItem> load_items(Plan& plan, const Manifest& manifest) {
    std::vector<LoadItem> items;
    std::string kinds;
    for (const char* kind : saved_kinds) {
      append_items(items, plan, kind, kind);
      if (!items.empty() && items.back().what == kind) kinds += fmt::format(" {} ", kind);
    }
    std::string held;  // by any rank
    for (const std::string& each : agreed(comm_, [&] { return kinds; })) held += each;
    std::set<std::pair<std::string, int>> pieces;
    for (const PieceSpec& piece : plan.table().pieces()) pieces.insert({piece.name, piece.piece});
    for (const ManifestEntry& entry : manifest.entries) {
      if (pieces.contains({entry.name, entry.piece}) &&
          held.find(fmt::format(" {} ", entry.what)) != std::string::npos) {
        continue;
      }
      throw Error(ErrorKind::refused, fmt::format("resume from checkpoint {}", manifest.id),
                  fmt::format("{}: found in the checkpoint; expected only what this model and "
                              "layout hold",
                              entry.label()));
    }
    return items;
  }

  Storage& storage_;
  Communicator& comm_;
  const SaveAs as_;
  std::unique_ptr<BackgroundSave> background_;  // null: every save is waited for
};

}  // namespace

std::unique_ptr<Checkpointer> make_checkpointer(Storage& storage, Communicator& comm,
                                                const SaveHow& how) {
  return std::make_unique<StoredCheckpoints>(storage, comm, how);
}

}  // namespace shardproof
