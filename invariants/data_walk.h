// data_walk: whether the samples that steps took are those of epochs: each sample once in an epoch,
// disjoint over data ranks, the same for ranks of one model copy, as many in every step. A filler
// stands for no sample. Torch-free. Thread rule: none.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/reader.h"

namespace shardproof {

struct DataProblem {
  std::int64_t step = 0;
  int rank = -1;
  std::string text;
};

// How many real samples a step takes.
struct DataBatch {
  std::int64_t size = 0;
  std::string said_by;       // "training.global_batch" or what other steps took
  bool may_be_short = true;  // where it ends an epoch
  bool must_finish = false;  // an epoch leaves nothing
  bool declared = false;     // the config says what becomes of the last one
};

// Every rank's real samples of a step, each list once per data coordinate.
struct StepSamples {
  std::vector<std::int64_t> ids;
  std::optional<DataProblem> problem;
};

StepSamples samples_of(const Trace& trace, std::int64_t step);

// Walks the steps in order and keeps the state of the epoch.
class DataWalk {
 public:
  // `size` of an epoch, 0 when not known; `before`: samples of the first epoch that were taken
  // elsewhere, nothing when that is not known.
  DataWalk(std::int64_t size, DataBatch batch, std::optional<std::int64_t> before)
      : size_(size), batch_(std::move(batch)), midway_(!before), before_(before.value_or(0)) {}

  std::optional<DataProblem> take(std::int64_t step, const std::vector<std::int64_t>& ids);
  // The same walk after a step whose batch ends an epoch and begins the next one; nothing where it
  // cannot be so.
  std::optional<DataWalk> across(const std::vector<std::int64_t>& ids) const;

  std::int64_t seen() const { return static_cast<std::int64_t>(seen_.size()); }
  std::int64_t epochs() const { return epochs_; }
  const std::string& open() const { return open_; }  // what could not be decided

 private:
  bool ends_by_its_place() const;
  std::int64_t taken() const { return before_ + seen(); }  // of this epoch
  std::optional<DataProblem> end_epoch(std::int64_t step);
  void leave_open(const std::string& reason);

  const std::int64_t size_;
  const DataBatch batch_;
  bool midway_;
  std::int64_t before_;
  std::set<std::int64_t> seen_;
  std::int64_t epochs_ = 0;
  std::string open_;
};

// What another program does where an epoch ends inside a batch is not said: it drops the rest, or
// goes on with the next epoch. Both are followed, as long as the samples fit.
class DataWalks {
 public:
  explicit DataWalks(DataWalk walk) { alive_.push_back(std::move(walk)); }

  std::optional<DataProblem> step(const Trace& trace, std::int64_t step);
  const DataWalk& walk() const { return alive_.front(); }

 private:
  std::vector<DataWalk> alive_;  // never empty
};

}  // namespace shardproof
