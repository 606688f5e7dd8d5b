// reader: a trace, read whole except for tensor bytes, which are mapped on demand. Anybody's trace:
// nothing here knows our trainer. A torn last line is legal; any other line that does not parse is
// Error corrupt naming file and line, and so is a second record of a step in one run of a rank.
// Missing rank files and a second run in the same folder are reported by the reader, judged by the
// checks.
// Thread rule: immutable after read().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/event.h"

namespace shardproof {

struct AtRecord {
  std::int64_t step = 0;
  std::string phase;
};
struct CheckpointRecord {
  std::int64_t step = 0;
  std::string path;
  bool done = false;
};

struct RankTrace {
  int rank = 0;
  int world = 0;
  Json run;      // the first `run` event; null when missing
  int runs = 0;  // how many `run` events the file holds
  std::vector<StepRecord> steps;
  std::vector<TensorRecord> tensors;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<Json> others;  // kinds not listed here, in order
  std::optional<AtRecord> last_at;
  std::optional<std::int64_t> ended;  // the step of the last run's `end`
  bool torn = false;
  bool ascending = false;  // known: no step is repeated or goes back, so find_step can be quick

  // The last record of the step; null when there is none.
  const StepRecord* find_step(std::int64_t step) const;
};
bool steps_ascend(const RankTrace& trace);  // what `ascending` is to say

// A captured tensor file of one rank.
struct TensorFileRef {
  std::int64_t step = 0;
  std::string what;
  int rank = 0;
  std::string path;
};

struct Trace {
  std::string directory;
  std::vector<RankTrace> ranks;      // by rank; those whose file exists
  std::vector<Json> harness;         // harness.jsonl, empty when absent
  std::vector<TensorFileRef> files;  // sorted by (step, what, rank)

  int world() const;  // as the run events claim; 0 when none
  std::vector<std::int64_t> step_numbers() const;
};

Trace read_trace(const std::string& directory);  // Error bad_input when it holds no rank file

// A captured file, memory-mapped. An entry without sharding info is a whole tensor.
class TensorFile {
 public:
  static TensorFile open(const std::string& path);  // Error io | corrupt
  struct Entry {
    TensorPlace place;
    Dtype dtype = Dtype::f32;
    std::span<const std::byte> bytes;
  };
  const std::vector<Entry>& entries() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace shardproof
