// ctest: unit
// manifest_facts: a manifest that was edited and sealed again is whole byte by byte; what it says
// no longer fits together, and both fields are named.
#include "train/manifest_facts.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "train/manifest_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;

class ManifestFacts : public ::testing::Test {
 protected:
  ManifestFacts() : storage_(memory_storage()) { testing::write_tiny(*storage_, 2, state_); }

  std::vector<Damage> after(const std::function<void(Manifest&)>& edit) {
    const std::string id = "step-00000010";
    const auto whole = testing::read_file(*storage_, manifest_path(id));
    testing::reseal(*storage_, id, edit);
    EXPECT_TRUE(verify_checkpoint(*storage_, id).empty()) << "not seen by the digests";
    const std::vector<Damage> found = contradictions(read_manifest(*storage_, id));
    testing::replace_file(*storage_, manifest_path(id), whole);
    return found;
  }

  void expect(const std::string& where, const std::string& found,
              const std::function<void(Manifest&)>& edit) {
    std::string all;
    bool named = false;
    for (const Damage& each : after(edit)) {
      all += each.where + ": expected " + each.expected + ", found " + each.found + "\n";
      named = named || (contains(each.where, where) && contains(each.found, found));
    }
    EXPECT_TRUE(named) << where << ", found " << found << "\n" << all;
  }

  testing::State state_ = testing::tiny_state(1);
  std::unique_ptr<Storage> storage_;
};

TEST_F(ManifestFacts, WhatTheTrainerWritesAgrees) {
  EXPECT_TRUE(contradictions(read_manifest(*storage_, "step-00000010")).empty());
  for (const int ranks : {1, 3}) {
    testing::write_tiny(*storage_, ranks, state_, 10 + ranks);
    EXPECT_TRUE(contradictions(read_manifest(*storage_, step_id(10 + ranks))).empty());
  }
}

TEST_F(ManifestFacts, EachFactIsComparedWithWhatItFollowsFrom) {
  const auto facts = [this](const std::string& where, const std::string& found,
                            const std::function<void(CheckpointFacts&)>& edit) {
    expect(where, found, [&](Manifest& manifest) { edit(manifest.facts); });
  };
  facts("facts.step against facts.config.training.steps", "21",
        [](CheckpointFacts& f) { f.step = 21; });
  facts("facts.step against facts.config.training.steps", "2147483647",
        [](CheckpointFacts& f) { f.step = 2147483647; });
  facts("facts.step against id", "11", [](CheckpointFacts& f) { f.step = 11; });
  facts("facts.schedule.step against facts.step", "10", [](CheckpointFacts& f) { f.step = 9; });
  facts("facts.schedule.lr against facts.config.optimizer", "0.5",
        [](CheckpointFacts& f) { f.schedule["lr"] = 0.5; });
  facts("facts.schedule.lr", "null", [](CheckpointFacts& f) { f.schedule.erase("lr"); });
  facts("facts.layout against facts.config.run.layout", "dp4",
        [](CheckpointFacts& f) { f.layout = "dp4"; });
  facts("facts.run_line: training.clip against facts.config.training.clip", "1.0",
        [](CheckpointFacts& f) { f.config["training"]["clip"] = 0.5; });
  facts("facts.run_line: run.layout against facts.config.run.layout", "dp4.zero1",
        [](CheckpointFacts& f) { f.run_line = "model.layers=1"; });
  facts("facts.run_line against facts.config", "model.lairs",
        [](CheckpointFacts& f) { f.run_line = "model.lairs=1"; });
  facts("facts.run_line", "", [](CheckpointFacts& f) { f.run_line = ""; });
  facts("facts.run_line", "", [](CheckpointFacts& f) { f.config = Json::object(); });
  facts("facts.seeds against facts.config.training.seed", "{\"training\":2}",
        [](CheckpointFacts& f) {
          f.seeds = Json{{"training", 2}};
        });
  facts("facts.cursor.samples against facts.step x facts.config.training.global_batch", "144",
        [](CheckpointFacts& f) { f.cursor["samples"] = 144; });
  for (const int taken : {161, 159, 0, -1}) {
    facts("facts.cursor.taken against facts.cursor.samples and epoch", std::to_string(taken),
          [=](CheckpointFacts& f) { f.cursor["taken"] = taken; });
  }
  facts("facts.cursor.taken against facts.cursor.samples and epoch", "160",
        [](CheckpointFacts& f) { f.cursor["epoch"] = 1; });
  facts("facts.cursor", "ledger", [](CheckpointFacts& f) { f.cursor.erase("ledger"); });
  facts("facts.config", "training.stops",
        [](CheckpointFacts& f) { f.config["training"]["stops"] = 1; });
  facts("facts.config", "micro_batch",
        [](CheckpointFacts& f) { f.config["training"]["micro_batch"] = 3; });
}

// Two synthetic sources, ten steps of them.
CheckpointFacts mixture_facts() {
  Config config = testing::tiny_config("dp2.zero1");
  config.data.sources = {{"a", 0.7, "synthetic", "", 50}, {"b", 0.3, "synthetic", "", 60}};
  const auto dataset =
      open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary, 1);
  Loader loader(dataset, loader_of(config), {});
  for (int step = 0; step < 10; ++step) loader.next();
  CheckpointFacts facts = testing::facts_of(config);
  facts.cursor = loader.cursor().to_json();
  facts.data_digest = dataset->digest().hex();
  return facts;
}

TEST(ManifestFactsOfAMixture, AgreeAndEachIsComparedWithWhatItFollowsFrom) {
  ASSERT_TRUE(contradictions(mixture_facts()).empty()) << contradictions(mixture_facts())[0].where;
  const auto named = [](const std::string& where, const std::string& found,
                        const std::function<void(CheckpointFacts&)>& edit) {
    CheckpointFacts facts = mixture_facts();
    edit(facts);
    const std::vector<Damage> all = contradictions(facts);
    ASSERT_FALSE(all.empty()) << where;
    EXPECT_TRUE(contains(all[0].where, where) && contains(all[0].found, found))
        << all[0].where << ": expected " << all[0].expected << ", found " << all[0].found;
  };
  const auto source = [&](const std::string& where, const std::string& found, const char* key,
                          const Json& value) {
    named(where, found, [&](CheckpointFacts& f) { f.cursor["sources"][1][key] = value; });
  };
  const std::string list = "facts.cursor.sources against facts.config.data.sources";
  source(list, "\"c\"", "name", "c");
  source(list, "0.5", "weight", 0.5);
  source("facts.cursor.sources[1].size against facts.config.data.sources", "61", "size", 61);
  source("facts.cursor.sources[1].taken", "0 epochs of 60 and 1 taken", "taken", 1);
  source("facts.cursor.sources[1].epoch", "-1", "epoch", -1);
  source("facts.cursor.sources[1].before", "1", "before", 1);
  source("facts.data_digest against facts.cursor.sources", "", "digest", sha256("x").hex());
  named("facts.data_digest against facts.cursor.sources", "d1",
        [](CheckpointFacts& f) { f.data_digest = "d1"; });
  named("facts.cursor.samples against facts.step", "176",
        [](CheckpointFacts& f) { f.cursor["samples"] = 176; });
  named("facts.cursor.sources[0].taken", "", [](CheckpointFacts& f) { f.cursor["since"] = 16; });
  named(list, "[]", [](CheckpointFacts& f) {
    f.cursor.erase("sources");
    f.cursor["epoch"] = 0;
    f.cursor["taken"] = 160;
  });
  named("facts.cursor", "since", [](CheckpointFacts& f) { f.cursor.erase("since"); });
  // A plain run has no sources.
  CheckpointFacts plain = testing::facts_of(testing::tiny_config("dp2.zero1"));
  plain.cursor = mixture_facts().cursor;
  EXPECT_TRUE(contains(contradictions(plain).at(0).where, list));
}

// Both say the same, so that no other comparison sees it.
void set_everywhere(Manifest& manifest, const std::string& assignment) {
  Config config = parse_config_json(manifest.facts.config.dump(), "config");
  set_key(config, assignment);
  manifest.facts.config = to_json(config);
  manifest.facts.run_line = run_line(config);
  manifest.facts.layout = config.run.layout;
}

TEST_F(ManifestFacts, ThePiecesAreThoseOfTheModel) {
  const std::string where = "entries against facts.config.model";
  for (const std::string assignment :
       {"model.layers=2", "model.vocabulary=352", "model.sequence=16", "model.layers=1024"}) {
    expect(where, "parameters", [&](Manifest& m) { set_everywhere(m, assignment); });
  }
  expect(where, "\"pieces\":2", [](Manifest& m) { set_everywhere(m, "numerics.tensor_pieces=1"); });
  const auto drop = [](Manifest& m, const std::string& what) {
    std::erase_if(m.entries, [&](const ManifestEntry& entry) { return entry.what == what; });
  };
  // The bytes of what was dropped lie in the files: verify sees that first.
  for (const std::string what : {"master", "exp_avg_sq", "param"}) {
    Manifest manifest = read_manifest(*storage_, "step-00000010");
    drop(manifest, what);
    const std::vector<Damage> found = contradictions(manifest);
    ASSERT_EQ(found.size(), 1u) << what;
    EXPECT_TRUE(contains(found[0].where, where)) << found[0].where;
  }
  Manifest manifest = read_manifest(*storage_, "step-00000010");
  manifest.entries.push_back(manifest.entries.back());
  manifest.entries.back().what = "velocity";
  EXPECT_TRUE(contains(contradictions(manifest).at(0).found, "velocity"));
}

TEST_F(ManifestFacts, TheFilesAreThoseOfTheRanks) {
  expect("files against facts.layout", "rank_00001.safetensors",
         [](Manifest& m) { set_everywhere(m, "run.layout=dp1"); });
}

TEST_F(ManifestFacts, ASaverThatSaysNoRunIsNotJudgedByIt) {
  EXPECT_TRUE(after([](Manifest& m) {
                m.facts.config = Json::object();
                m.facts.run_line = "";
                m.facts.cursor = Json::object();
              }).empty());
}

// What nothing else in the manifest says.
bool is_believed(const std::string& pointer) {
  for (const std::string_view prefix :
       {"/facts/data_digest", "/facts/tokenizer_digest", "/facts/template_digest",
        "/facts/versions", "/facts/origin", "/facts/kernel_fingerprint", "/facts/cursor/ledger"}) {
    if (pointer.starts_with(prefix)) return true;
  }
  return false;
}

// Another value of the same type.
Json changed(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>() + *rc::gen::element(-1, 1, 7);
  if (value.is_number()) return value.get<double>() + *rc::gen::element(-0.5, 0.25, 3.0);
  std::string text = value.get<std::string>();
  const bool hex = text.size() >= 64 && *rc::gen::arbitrary<bool>();
  if (!hex) return text + "0";
  char& digit = text[*rc::gen::inRange<std::size_t>(0, text.size())];
  digit = digit == '0' ? '1' : '0';
  return text;
}

// Any one value of a manifest, changed and sealed again, is refused, or seen by verify.
RC_GTEST_FIXTURE_PROP(ManifestFacts, NoChangedValueIsWhole, ()) {
  const std::string id = "step-00000010", path = manifest_path(id);
  const auto bytes = testing::read_file(*storage_, path);
  Json json = parse_json(read_text(*storage_, path, bytes.size()), path);
  std::vector<std::string> pointers;
  const Json flat = json.flatten();
  for (const auto& item : flat.items()) {
    if (!item.value().is_null() && !is_believed(item.key())) pointers.push_back(item.key());
  }
  // Most values are those of entries: half of the draws go to the facts.
  if (*rc::gen::arbitrary<bool>()) {
    std::erase_if(pointers, [](const std::string& p) { return !p.starts_with("/facts"); });
  }
  const std::string pointer = *rc::gen::elementOf(pointers);
  Json& value = json[Json::json_pointer(pointer)];
  const Json before = value;
  value = changed(before);
  RC_LOG() << pointer << ": " << before.dump() << " to " << value.dump() << "\n";
  const std::string text = testing::sealed(json);
  testing::replace_file(*storage_, path, std::as_bytes(std::span(text)));
  if (verify_checkpoint(*storage_, id).empty()) {
    RC_ASSERT(!contradictions(read_manifest(*storage_, id)).empty());
  }
}

RC_GTEST_PROP(ManifestFactsOfAMixture, NoChangedValueOfItsCursorAgrees, ()) {
  CheckpointFacts facts = mixture_facts();
  std::vector<std::string> pointers;
  const Json flat = facts.cursor.flatten();
  for (const auto& item : flat.items()) {
    if (item.key() != "/ledger") pointers.push_back(item.key());
  }
  const std::string pointer = *rc::gen::elementOf(pointers);
  Json& value = facts.cursor[Json::json_pointer(pointer)];
  const Json before = value;
  value = changed(before);
  RC_LOG() << pointer << ": " << before.dump() << " to " << value.dump() << "\n";
  RC_ASSERT(!contradictions(facts).empty());
}

TEST_F(ManifestFacts, TheFirstContradictionIsRefused) {
  require_consistent({}, "here");
  const Error error = error_of([] {
    require_consistent({{"a against b", "1", "2"}, {"c against d", "3", "4"}}, "checkpoint x");
  });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.place(), "checkpoint x");
  EXPECT_EQ(error.detail(), "a against b: expected 1, found 2 (1 more contradictions)");
}

}  // namespace
}  // namespace shardproof
