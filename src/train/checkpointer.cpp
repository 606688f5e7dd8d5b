// checkpointer: see checkpointer.h. Strict resume: whatever determines the bits must be what it
// was; each byte is read once, by the rank that needs it, and verified before it is copied; and
// nothing goes on before all ranks have found theirs whole.
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
#include "checkpoint/recut.h"
#include "checkpoint/save.h"
#include "checkpoint/set_aside.h"
#include "checkpoint/storage.h"
#include "checkpoint/verify.h"
#include "comm/communicator.h"
#include "mesh/layout.h"
#include "train/config.h"
#include "train/manifest_facts.h"
#include "train/plan_items.h"
#include "train/recomputation.h"

namespace shardproof {
namespace {

constexpr const char* saved_kinds[] = {"param", "exp_avg", "exp_avg_sq", "master"};

// What this run expects and what the checkpoint holds, one sentence a difference. Some make another
// Case of it, which may begin with the same state; others leave nothing that could go on.
class Differences {
 public:
  void compare(const std::string& what, const std::string& expected, const std::string& found) {
    if (expected != found) add(what, expected, found);
  }
  void add(const std::string& what, const std::string& expected, const std::string& found,
           const std::string& note = "", bool of_case = false) {
    all_.push_back(
        {fmt::format("{}: expected {}, found {}{}", what, expected.empty() ? "nothing" : expected,
                     found.empty() ? "nothing" : found, note),
         of_case});
  }
  void refuse(const std::string& place) const {
    if (all_.empty()) return;
    const bool could_begin = std::ranges::all_of(all_, &Difference::of_case);
    throw Error(ErrorKind::refused, place,
                joined(false) + (could_begin ? "; such a run is a new Case, which may begin with "
                                               "this state: resume --new-case"
                                             : ""));
  }
  // Those of a new Case; Error unless there are such, and no others.
  std::vector<std::string> of_new_case(const std::string& place) const {
    if (const std::string text = joined(true); !text.empty()) {
      throw Error(ErrorKind::refused, place, text + "; no new Case can begin with that");
    }
    if (all_.empty()) {
      throw Error(ErrorKind::bad_input, place,
                  "nothing that makes another Case differs; expected a resume without --new-case");
    }
    std::vector<std::string> texts;
    for (const Difference& each : all_) texts.push_back(each.text);
    return texts;
  }

 private:
  struct Difference {
    std::string text;
    bool of_case = false;
  };
  std::string joined(bool others_alone) const {
    std::string text;
    for (const Difference& each : all_) {
      if (others_alone && each.of_case) continue;
      text += (text.empty() ? "" : "; ") + each.text;
    }
    return text;
  }

  std::vector<Difference> all_;
};

// What may differ in a new Case that begins with the state of an old one: how work is cut and
// summed, not what is trained on what.
bool is_of_case(const std::string& key) {
  return key.starts_with("numerics.") || key == "training.micro_batch";
}

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
                          : "",
                      is_of_case(name));
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
                  " (native reduction adds in an order of the layout's own)", true);
}

Differences differences_of(const CheckpointFacts& expected, const Manifest& manifest) {
  const CheckpointFacts& found = manifest.facts;
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
  if (expected.kernel_fingerprint != found.kernel_fingerprint) {
    differences.add("kernel fingerprint", expected.kernel_fingerprint, found.kernel_fingerprint, "",
                    true);
  }
  return differences;
}

std::string resume_from(const Manifest& manifest) {
  return "resume from checkpoint " + manifest.id;
}

void require_expected(const CheckpointFacts& expected, const Manifest& manifest) {
  require_consistent(
      manifest.seeds_alone ? contradictions(manifest) : contradictions(manifest.facts),
      "checkpoint " + manifest.id);
  differences_of(expected, manifest).refuse(resume_from(manifest));
  const Config config = parse_config_json(expected.config.dump(), "this run's config");
  if (manifest.seeds_alone && config.data.remix) {
    throw Error(
        ErrorKind::refused, resume_from(manifest),
        "data.remix: it keeps seeds alone, which give no state with other weights; expected "
        "a checkpoint of strategy sharded or full");
  }
}

// The origin of a run that begins a new Case with this checkpoint's state.
Json new_case_origin(const CheckpointFacts& expected, const Manifest& manifest) {
  require_consistent(contradictions(manifest), "checkpoint " + manifest.id);
  require_tensors(manifest);
  const auto changed =
      differences_of(expected, manifest).of_new_case(resume_from(manifest) + " --new-case");
  const Config config = parse_config_json(manifest.facts.config.dump(), "facts.config");
  Json json{{"checkpoint", manifest.id},
            {"step", manifest.facts.step},
            {"state_digest", manifest.state_digest().hex()},
            {"case", config_digest(config)},
            {"kernels", manifest.facts.kernel_fingerprint},
            {"changed", changed}};
  if (!manifest.facts.origin.empty()) json["origin"] = manifest.facts.origin;
  return Json{{"new_case_from", json}};
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

  PruneReport prune(const Retention& retention, const std::set<std::string>& in_use) override {
    if (retention == Retention{}) return {};
    const std::string text = agreed(comm_, [&]() -> std::string {
                               if (comm_.rank() != 0) return "";
                               const PruneReport report =
                                   shardproof::prune(storage_, retention, in_use);
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

  Digest state_digest(Plan& plan) override { return state_digest_of(comm_, save_items(plan)); }

  Loaded load(Plan& plan, const std::string& id, const CheckpointFacts& expected) override {
    const Manifest manifest = read_durable(storage_, comm_, id.empty() ? newest() : id);
    agreed(comm_, [&] {
      require_expected(expected, manifest);
      return std::string();
    });
    if (manifest.seeds_alone) {
      load_beginning(manifest, plan, comm_);
      return {manifest.facts, manifest.seeds_alone->state};
    }
    const std::vector<LoadItem> items = load_items(plan, manifest);
    agreed(comm_, [&] {
      load_state(storage_, manifest, items);
      return std::string();
    });
    plan.loaded();
    return {manifest.facts};
  }

  Loaded load_new_case(Plan& plan, const std::string& id,
                       const CheckpointFacts& expected) override {
    Manifest manifest = read_durable(storage_, comm_, id.empty() ? newest() : id);
    const std::string origin =
        agreed(comm_, [&] { return new_case_origin(expected, manifest).dump(); }).front();
    agreed(comm_, [&] {
      std::vector<LoadItem> items;
      for (const char* kind : saved_kinds) append_items(items, plan, kind, kind);
      load_recut(storage_, manifest, items);
      return std::string();
    });
    plan.loaded();
    manifest.facts.origin = parse_json(origin, "origin");
    return {manifest.facts};
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
      throw Error(ErrorKind::refused, resume_from(manifest),
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
