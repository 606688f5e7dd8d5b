// config: one struct tree with defaults, a strict parser (TOML, or JSON with the same keys) and
// check(). An unknown key, a wrong type or an impossible value is Error bad_input naming key, line
// and what was expected. Only this file's parser and main read anything from outside.
// The Case is all but `checkpoint`, `parallel`, `guard` and `run`; a Run adds them. Both print on a
// line: the keys that are not at their defaults as a.b=c in struct order, the syntax of --set. A
// value with blanks, quotes or brackets is written as a JSON string, so a line splits at blanks
// outside double quotes and never holds a single quote. Thread rule: values. Torch-free.
#pragma once

#include <cstdint>
#include <map>
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
  double label_smoothing = 0;
  bool tied = false;
  bool operator==(const ModelSection&) const = default;
};

// One source of a mixture, as an item of data.sources. In a text:
//   sources = [{name = "books", weight = 0.7, kind = "text", path = "books.txt"}, ...]
struct SourceSection {
  std::string name;                // of letters, digits, _ . -; its order is drawn with it
  double weight = 1;               // relative to the others; 0 keeps a source that is not drawn
  std::string kind = "synthetic";  // synthetic | text | tokens
  std::string path;
  int samples = 4096;  // synthetic
  bool operator==(const SourceSection&) const = default;
};

struct DataSection {
  std::string kind = "synthetic";  // synthetic | text | tokens
  std::string path;
  int samples = 4096;    // synthetic
  double ignored = 0.1;  // synthetic: share of ignored targets
  bool packed = false;
  int end_token = 0;          // packed token files: ends a document
  std::string last = "drop";  // drop | short
  int workers = 0;
  // Several sources in place of kind, path and samples; empty: one source, these keys.
  std::vector<SourceSection> sources;
  bool remix = false;  // a resume may change the weights and add sources
  bool operator==(const DataSection&) const = default;
};

struct TrainingSection {
  int steps = 20;
  int global_batch = 16;  // samples a step
  int micro_batch = 4;    // rows of a micro-batch; M = global_batch / micro_batch
  int accumulation = 0;   // 0: follows from the layout; else must equal M / dp
  double clip = 1.0;      // global norm; 0 is off
  int seed = 1;
  std::string warm_start;  // DIR or DIR/ID of a checkpoint whose weights the run begins with
  bool operator==(const TrainingSection&) const = default;
};

struct OptimizerSection {
  double lr = 2.5e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  std::vector<std::string> no_decay = {"*.bias", "*ln*", "pos.weight"};
  int warmup = 0;
  int decay_steps = 0;  // cosine ends here; 0: constant
  double final_ratio = 0.1;
  bool operator==(const OptimizerSection&) const = default;
};

struct NumericsSection {
  std::string reduction = "canonical";  // canonical | native: the backend's own sums
  int tensor_pieces = 2;                // V
  int sequence_pieces = 2;              // S
  bool portable = false;                // the same bits on every x86-64 machine; slow
  bool operator==(const NumericsSection&) const = default;
};

struct CheckpointSection {
  std::string directory;     // empty: no checkpoints
  int every = 0;             // steps; 0: only where asked
  bool last = true;          // also after the last step, when there is a directory
  double every_minutes = 0;  // 0: not by time
  double mtbf_minutes = 0;   // mean time between failures: saves as often as is worth their cost
  std::string strategy = "sharded";  // each rank writes its own | full: rank 0 writes one file
  bool background = false;           // written while training goes on
  int synchronous_every = 0;         // in the background: every n-th save is waited for; 0: none
  int keep_last = 0;                 // the newest so many stay; 0: all
  int keep_every = 0;                // those at a multiple of so many steps stay too; 0: none
  int drill_every = 0;  // every n-th is verified and continued by another process; 0: none
  bool operator==(const CheckpointSection&) const = default;
};

// How a layout divides the work in detail. Not part of the Case: never changes the bits of
// canonical reduction.
struct ParallelSection {
  std::vector<int> stage_layers;  // of each pipeline stage, chunk by chunk; empty: balanced
  int unit_layers = 1;            // ZeRO 2 and 3: blocks that are reduced and gathered as one
  int prefetch_forward = 1;       // ZeRO 3: units gathered ahead
  int prefetch_backward = 1;
  bool reshard_after_forward = true;        // ZeRO 3
  int bucket_bytes = 4 << 20;               // native data parallelism: gradients that travel as one
  bool overlap = true;                      // native data parallelism: while the backward goes on
  std::string offload_optimizer = "none";   // none | host | file
  std::string offload_parameters = "none";  // ZeRO 3: of the shares; none | host | file
  std::string offload_directory;            // of files; empty: the system's temporary folder
  int offload_window = 1 << 20;  // bytes of offloaded optimizer state on the device at once
  bool operator==(const ParallelSection&) const = default;
};

// What watches a run. Not part of the Case: never changes the bits of a run that nothing befalls.
struct GuardSection {
  bool verify = true;         // ranks agree on every call before data moves
  bool watch = true;          // waits are looked into, hangs are named
  double look_seconds = 1;    // a wait of so long is looked into
  double stall_seconds = 30;  // a rank without a sign of progress for so long is hung
  std::string dumps;          // a folder for flight recordings of failed runs; empty: none
  double loss_max = 0;        // 0: no limit
  double grad_norm_min = 0;
  double grad_norm_max = 0;  // 0: no limit
  double spike_factor = 0;   // loss over so many times the median of the window: rolls back; 0: off
  int spike_window = 16;     // steps
  int audit_every = 0;       // steps between audits of what replicas hold; 0: none
  bool operator==(const GuardSection&) const = default;
};

// Not part of the Case: never changes the bits.
struct RunSection {
  std::string layout = "dp4.zero1";
  std::string backend = "threads";  // threads | mpi
  std::string fault;                // rank:step:phase:kill|stop|delay=S
  double deadline = 60;             // seconds for any wait of a rank
  int restarts = 0;                 // from the newest checkpoint after a failure, at most
  double restart_seconds = 1;       // before the first restart; doubles with each
  bool elastic = false;             // survivors go on without restart, where MPI can
  int spares = 0;                   // ranks beside those of the layout, for the places of the dead
  bool operator==(const RunSection&) const = default;
};

struct Config {
  ModelSection model;
  DataSection data;
  TrainingSection training;
  OptimizerSection optimizer;
  NumericsSection numerics;
  CheckpointSection checkpoint;
  ParallelSection parallel;
  GuardSection guard;
  RunSection run;

  int micro_batches() const { return training.global_batch / training.micro_batch; }
  bool operator==(const Config&) const = default;
};

// Where each key that was given came from ("run.toml:12", "--set training.steps=10"), by its name:
// the parsers fill it, check() names it.
using Origins = std::map<std::string, std::string>;

Config parse_toml(std::string_view text, const std::string& file, Origins* origins = nullptr);
Config parse_config_json(std::string_view text, const std::string& file,
                         Origins* origins = nullptr);
// By its ending: .toml | .json. Error bad_input also when it cannot be read.
Config load_config(const std::string& path, Origins* origins = nullptr);

// "training.steps=10". The value is a number, true or false, a bare text, or JSON (a text in double
// quotes, a list). On an Error the config is unchanged.
void set_key(Config& config, std::string_view assignment, Origins* origins = nullptr);
// Ranges, batch triple, model shape, data, layout legality; everything that can be known before
// anything is opened or started.
void check(const Config& config, const Origins& origins = {});

std::string to_toml(const Config& config);  // every key; parses back to the same config
Json to_json(const Config& config);
std::string case_line(const Config& config);  // the Case alone
std::string run_line(const Config& config);
Config parse_run_line(std::string_view line);  // for replay

// The Case keys that determine the bits of a step: without those that say how far a run goes, from
// which path the data comes (its digest is compared apart), or how the work is divided.
Json case_json(const Config& config);
// SHA-256 of case_json, in hex; data.sources takes part where there are any.
std::string config_digest(const Config& config);

}  // namespace shardproof
