// drill: every n-th checkpoint of a run is verified and continued for a few steps by another
// process, on another legal layout, while training goes on; what that process did must be what the
// run itself did at those steps: loss, gradient norm, learning rate and tokens of each, and the
// digest of the whole state behind the last, bit for bit. (Under native reduction on the run's own
// layout, the only one with its bits.) Where the run ends before those steps, the drill says how
// many were compared.
// The next drill waits for the process of the one before. A process that outlives its deadline
// fails the drill; none outlives the run, however that ends. A failure is an Error on all ranks
// that names the checkpoint and the first difference.
// Collective: all ranks of the run, in step. Thread rule: the rank's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "comm/communicator.h"
#include "harness/child.h"
#include "train/config.h"
#include "train/saver.h"
#include "train/trainer.h"

namespace shardproof {

// The layouts that drills of this run take in turn: legal ones other than its own, if there are
// any. Pure.
std::vector<std::string> drill_layouts(const Config& config);

// What the other process did, as one line of its output.
struct DrillResult {
  std::vector<StepResult> steps;
  Digest state;  // behind the last of them
};
std::string print_drill(const DrillResult& result);
// The line of it within an output; nothing where there is none.
std::optional<DrillResult> find_drill(const std::string& output);

struct DrillOptions {
  int every = 1;        // of the checkpoints
  int steps = 2;        // that are continued; lost moments show in the second
  std::string program;  // the command `shardproof`
  Duration deadline{};  // of the other process
};

class Drill : public SaveWatch {
 public:
  // `say` is told the result of each, on rank 0. Error refused where no other process can have the
  // bits of this run.
  Drill(const Config& config, const DrillOptions& options, Communicator& comm,
        std::function<void(const std::string&)> say);

  void begun(std::int64_t step) override;
  void saved(std::int64_t step) override;
  std::set<std::string> in_use() const override;

  // After each step of the run. `state` gives the digest of its state, collectively.
  void after_step(const StepResult& result, const std::function<Digest()>& state);
  // At the end of the run; waits for what is under way unless the run was asked to stop.
  void finish(bool stopped);

 private:
  struct Record {
    std::int64_t from = 0;  // the checkpoint's step
    std::string layout;
    std::vector<StepResult> ours{};
    std::optional<Digest> state{};  // ours
    bool saved = false;
    bool went_back = false;               // the run did these steps anew
    std::optional<ChildResult> theirs{};  // rank 0
    bool ended = false;
    std::string name() const;
  };

  bool child_ended(bool wait);
  void start(Record& record);
  bool complete(const Record& record) const;
  void judge_front();
  std::string verdict(const Record& record) const;  // Error: it failed

  const Config& config_;
  const DrillOptions options_;
  const std::vector<std::string> layouts_;
  Communicator& comm_;
  std::function<void(const std::string&)> say_;
  std::deque<Record> records_;    // oldest first
  std::unique_ptr<Child> child_;  // rank 0: of running_
  std::int64_t running_ = -1;     // the checkpoint's step
  std::int64_t last_step_ = -1;
  std::size_t saves_ = 0, drills_ = 0;
};

}  // namespace shardproof
