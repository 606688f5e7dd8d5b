// layout_run: proves one layout of a Case. Canonical reduction: the Case on one rank (once), the
// same Run on the layout, and every tensor of every step compared bit by bit through both traces.
// Native reduction: the Run twice, bit by bit, and its gradients against float64 on one rank from
// its own weights, at up to four steps (native_legs.h). Thread ranks of this process keep canonical
// traces in memory unless a folder is given; all other traces go to a folder that is removed when
// the row passes. Thread rule: one run at a time per process.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "data/dataset.h"
#include "harness/leg.h"
#include "harness/world.h"
#include "invariants/verdict.h"
#include "trace/reader.h"
#include "train/config.h"

namespace shardproof {

// A run as its trace says: in `folder` when given, else in memory (thread ranks alone). Nothing
// when it was interrupted. Error as `run`.
std::optional<Trace> traced_run(const Config& config, const std::string& folder,
                                const std::atomic<bool>* stop);
// On thread ranks, in memory: digests of every tensor at every step; what the request says of a
// trace is overruled.
Trace traced_in_memory(RunRequest request);
// The same; `dataset` null: as the config says.
Trace traced_in_memory(const Config& config, std::shared_ptr<const Dataset> dataset = nullptr,
                       const std::atomic<bool>* stop = nullptr);

// What a layout must be to count as equal to its reference: live, cover, replicas, data, optimizer
// bytes, calls and layout all pass. The verdict of the first that fails, else of the first that is
// undecided, else `layout`'s with what was compared in its notes.
Verdict judge_layout(const Trace& reference, const Trace& trace, std::int64_t steps);

// The Run twice and the legs beside it, by name: "main", "repeat" and native_legs; in `folder`,
// which must not exist. Nothing when interrupted. Error as `run`, or of a leg on one rank.
std::optional<Traces> native_runs(const Config& config, const std::string& folder,
                                  const std::atomic<bool>* stop);
// As judge_layout, with `native layout` and `repeat` in place of `layout`.
Verdict judge_native(const Config& config, const Traces& traces);

// The rule by which a row is judged: "bits of one rank" or "native layout".
std::string_view rule_of(const Config& config);

// "shardproof replay '...'": as many steps as replay asks for, at least.
std::string replay_line(Config config);

struct LayoutProof {
  Config config;
  int ranks = 0;
  Verdict verdict;
  std::optional<double> bytes_sent;  // a step, by the rank that sends most; none without a trace
  double seconds = 0;                // of the run and its judgement
  bool interrupted = false;
};

class LayoutProver {
 public:
  // `folder`: where traces go; they stay there when `keep`, and thread ranks write them only then.
  LayoutProver(std::string folder, bool keep, const std::atomic<bool>* stop);

  // Precondition: check(config). A run that ends by an Error is a verdict, not an exception.
  LayoutProof prove(const Config& config, const std::string& name);

 private:
  const Trace* reference(const Config& config);  // null: interrupted
  void prove_canonical(const Config& config, const std::string& folder, LayoutProof& out);
  void prove_native(const Config& config, const std::string& folder, LayoutProof& out);

  const std::string folder_;
  const bool keep_;
  const std::atomic<bool>* const stop_;
  std::map<std::string, Trace> references_;  // by run line
};

}  // namespace shardproof
