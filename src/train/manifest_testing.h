// manifest_testing: checkpoints whose facts agree with each other, for the tests that break them.
// Test support; not part of any library.
#pragma once

#include <fmt/format.h>

#include <functional>

#include "checkpoint/checkpoint_testing.h"
#include "data/loader.h"
#include "train/config.h"
#include "train/sections.h"

namespace shardproof::testing {

// Facts as the trainer writes them after `step` steps of the config.
inline CheckpointFacts facts_of(const Config& config, std::int64_t step = 10) {
  CheckpointFacts facts = small_facts(step);
  facts.config = to_json(config);
  facts.run_line = run_line(config);
  facts.layout = config.run.layout;
  facts.packing = packing_of(config);
  facts.parameter_groups = parameter_groups_of(config);
  facts.seeds = Json{{"training", config.training.seed}};
  facts.schedule = Json{{"step", step}, {"lr", learning_rate(schedule_of(config), step)}};
  DataCursor cursor;
  cursor.samples = cursor.taken = step * config.training.global_batch;
  facts.cursor = cursor.to_json();
  return facts;
}

// One block of width 8; embed.weight and head.weight are two pieces of 1,400 elements.
inline Config tiny_config(const std::string& layout) {
  Config config;
  config.model.layers = 1;
  config.model.width = 8;
  config.model.heads = 2;
  config.model.vocabulary = 350;
  config.model.sequence = 8;
  config.run.layout = layout;
  return config;
}

inline State tiny_state(std::uint64_t seed) {
  return State(gpt_pieces(shape_of(tiny_config("dp1"))),
               {"param", "exp_avg", "exp_avg_sq", "master"}, seed);
}

// A committed checkpoint of the tiny model, by as many ranks as its layout has.
inline void write_tiny(Storage& storage, int ranks, State& state, std::int64_t step = 10) {
  const Config config = tiny_config(ranks == 1 ? "dp1" : fmt::format("dp{}.zero1", ranks));
  write_small(storage, ranks, step_id(step), state, facts_of(config, step));
}

// Replaces a manifest's text by that of its JSON after an edit, with digests that fit.
inline void reseal(Storage& storage, const std::string& id,
                   const std::function<void(Manifest&)>& edit) {
  Manifest manifest = read_manifest(storage, id);
  edit(manifest);
  const std::string text = manifest.print();
  replace_file(storage, manifest_path(id), std::as_bytes(std::span(text)));
}

}  // namespace shardproof::testing
