// config: one struct tree with defaults, a strict parser (TOML, or JSON with the same keys) and
// check(). An unknown key, a wrong type or an impossible value is Error bad_input naming key, line
// and what was expected. Only this file's parser and main read anything from outside.
// The Case (what determines the bits) is everything but `run`; a Run adds `run`. Both print on one
// line: the keys that are not at their defaults as a.b=c in struct order, the syntax of --set.
// Thread rule: values. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace shardproof {

struct ModelSection {
  int layers = 2;
  int width = 32;
  int heads = 4;
  int vocabulary = 64;
  int sequence = 16;
  double dropout = 0;
};

struct DataSection {
  std::string kind = "synthetic";  // synthetic | text | tokens
  std::string path;
  int samples = 4096;              // synthetic
  double ignored = 0.1;            // synthetic: share of ignored targets
  bool packed = false;
  std::string last = "drop";       // drop | short
  int workers = 0;
};

struct TrainingSection {
  int steps = 20;
  int global_batch = 16;           // samples a step
  int micro_batch = 4;             // rows of a micro-batch; M = global_batch / micro_batch
  int accumulation = 0;            // 0: follows from the layout; else must equal M / dp
  double clip = 1.0;               // global norm; 0 is off
  int seed = 1;
};

struct OptimizerSection {
  double lr = 1e-2;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  std::vector<std::string> no_decay = {"*.bias", "*ln*", "pos.weight"};
  int warmup = 0;
  int decay_steps = 0;             // cosine ends here; 0: constant
  double final_ratio = 0.1;
};

struct NumericsSection {
  std::string reduction = "canonical";  // canonical (native comes later)
  int tensor_pieces = 2;                // V
  int sequence_pieces = 2;              // S
  bool portable = false;                // the same bits on every x86-64 machine; slow
};

struct CheckpointSection {
  std::string directory;           // empty: no checkpoints
  int every = 0;                   // steps; 0: only where asked
  bool last = true;                // also after the last step, when there is a directory
};

// Not part of the Case: never changes the bits.
struct RunSection {
  std::string layout = "dp4.zero1";
  std::string backend = "threads";  // threads | mpi
  std::string fault;                // rank:step:phase:kill|stop|delay=S
  double deadline = 60;             // seconds for any wait of a rank
};

struct Config {
  ModelSection model;
  DataSection data;
  TrainingSection training;
  OptimizerSection optimizer;
  NumericsSection numerics;
  CheckpointSection checkpoint;
  RunSection run;

  int micro_batches() const { return training.global_batch / training.micro_batch; }
};

Config parse_toml(std::string_view text, const std::string& file);
Config parse_config_json(std::string_view text, const std::string& file);
Config load_config(const std::string& path);  // by its ending: .toml | .json

void set_key(Config& config, std::string_view assignment);  // "training.steps=10"
void check(const Config& config);                           // ranges, batch triple, layout legality

std::string to_toml(const Config& config);   // every key; parses back to the same config
Json to_json(const Config& config);
std::string case_line(const Config& config);  // without `run` and `checkpoint`
std::string run_line(const Config& config);
Config parse_run_line(std::string_view line);  // for replay
std::string config_digest(const Config& config);  // SHA-256 of the Case's full JSON

}  // namespace shardproof
