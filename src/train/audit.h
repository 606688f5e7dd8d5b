// audit: looks for silent corruption in every guard.audit_every-th step, and changes no bit of it.
//  - State is carried: checksums taken at the end of an audited step (and of the state that a run
//    begins with) are compared before the next update and before a save; those of the reduced
//    gradient from the sum to the update. Finds a bit that flips in what exists once.
//  - Replicas compare what must be equal: parameters over dp, cp and tp, shares over shard groups,
//    all state under ZeRO 0; and, before the update, loss, gradient norm, learning rate and clip
//    factor. The odd one out is named by vote where there are three (vote.h).
//  - One micro-batch of each data rank is computed again by another (recompute.h).
// What does not agree before the update (scalars) has changed nothing yet: the step is done again,
// once. All else is Error corrupt | mismatch, the same on every rank.
// Offloaded state has checks of its own (offload_file.h) and is not carried. Copies of tied weights
// on two pipeline stages are not compared. Calls go over a group of its own ("audit"), or, where
// the model computes again, between two calls of `around`.
// Collective but for carry() and reduced(). Thread rule: the rank's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/recompute.h"
#include "train/state_sums.h"
#include "train/vote.h"

namespace shardproof {

struct AuditParts {
  const Config& config;
  Mesh& mesh;
  Plan& plan;
  std::shared_ptr<const Dataset> dataset;
  // Before and after the audit's own calls: which part of the step they interrupt ("step", "save"),
  // and then "audit". Null: nobody counts.
  std::function<void(std::int64_t step, const char* part)> around;
};

// Of a step, the same bits on every rank.
struct AuditedScalars {
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double clip_factor = 0;
};

class Audit {
 public:
  explicit Audit(AuditParts parts);  // collective

  bool due(std::int64_t step) const { return (step + 1) % every_ == 0; }
  void carry();  // the state as it is now is what the next step must find

  void begin_step(std::int64_t step);
  void after_backward(std::int64_t step, Executor& executor, const DataCursor& cursor, double seed,
                      std::span<const LossLeaf> losses);
  void reduced(std::int64_t step);
  // False: the scalars differ, for the first time at this step: do it again.
  bool before_update(std::int64_t step, const AuditedScalars& scalars);
  void updated(std::int64_t step);
  void before_save(std::int64_t step);

 private:
  void apart(std::int64_t step, const char* part, const std::function<void()>& body);
  std::vector<std::string> gather(const std::string& mine);
  std::string what_changed();
  void compare_replicas(std::int64_t step);
  [[noreturn]] void name_replica(std::int64_t step, const std::string& key, const Vote& found);
  // Values by group of copies: a rank's own for each group that it is in.
  Json copies(const StateSums& sums) const;
  std::vector<Ballot> ballots(const std::vector<std::string>& own,
                              const std::vector<std::vector<std::string>>& again, int rank) const;

  const AuditParts parts_;
  const std::int64_t every_;
  const std::unique_ptr<Communicator> comm_;
  const std::vector<std::string> kinds_;  // that are carried
  Recompute recompute_;
  std::optional<StateSums> carried_, gradients_;
  std::int64_t repeated_ = -1;  // the step that is done again
};

}  // namespace shardproof
