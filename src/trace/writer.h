// writer: one rank's part of a trace: DIR/rank_00003.jsonl, appended with one write(2) a line, and
// DIR/step_000007.param.rank_00003.safetensors for captured steps; or the same records in memory
// (memory_trace.h; no tensors are captured). Without either every function returns at once. A fault
// asked for by SHARDPROOF_FAULT fires right after its `at` line. Events: Error io when a line
// cannot be written. A tensor file appears under its name when it is whole; a second call for the
// same step and `what` replaces it. Thread rule: one writer per rank; not shared. A kill or stop
// hits the whole process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trace/event.h"

namespace shardproof {

struct TraceFault {
  enum class Kind { kill, stop, delay };
  int rank = 0;
  std::int64_t step = 0;
  Phase phase = Phase::forward;
  Kind kind = Kind::kill;
  double seconds = 0;  // of a delay
};
TraceFault parse_trace_fault(std::string_view text);  // "2:13:backward:kill"; Error bad_input

class MemoryTrace;

struct TraceOptions {
  std::string directory;                // empty: no files
  std::shared_ptr<MemoryTrace> memory;  // thread ranks only; null: none
  std::set<std::int64_t> capture;       // steps whose tensors are written; -1 is the initial state
  bool capture_all = false;
  std::string match;    // regex over tensor names; empty matches all
  bool digest = false;  // tensor events with digests at every step
  std::optional<TraceFault> fault;

  // "0,1,4" or "all"; a regular expression. Error bad_input naming `place`, where it was given.
  void set_capture(const std::string& text, const std::string& place);
  void set_match(const std::string& text, const std::string& place);
  // Whether every tensor of every step is captured or digested.
  bool all_tensors() const { return (capture_all || digest) && match.empty(); }

  // From SHARDPROOF_TRACE, _TENSORS, _MATCH, _DIGEST, _FAULT. The caller reads the environment
  // (only main does); Error bad_input naming the variable.
  static TraceOptions from_environment(const std::map<std::string, std::string>& environment);
};

// A tensor to capture or digest: contiguous bytes that stay valid during the call.
struct TensorView {
  TensorPlace place;
  Dtype dtype = Dtype::f32;
  const void* data = nullptr;
  std::int64_t elements() const;
};

class TraceWriter {
 public:
  TraceWriter(TraceOptions options, int rank, int world);
  ~TraceWriter();

  bool enabled() const;
  bool wants_tensors(std::int64_t step) const;  // digest or capture at this step

  void run(const Json& facts);              // adds kind, schema, rank, world, pid
  void at(std::int64_t step, Phase phase);  // then fires the fault, if it is here
  void step(const StepRecord& record);
  void checkpoint(std::int64_t step, const std::string& path, bool done);
  void end(std::int64_t step);
  void event(const Json& line);  // any other kind
  // Writes tensor events (when digesting) and, on a captured step, the tensor file for `what`.
  // Runs that start on a block boundary get one digest per block, anything else one digest.
  void tensors(std::int64_t step, const std::string& what, std::span<const TensorView> views);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends one event to DIR/harness.jsonl: what only the starter knows.
void append_harness_event(const std::string& directory, const Json& event);

}  // namespace shardproof
