// sequence: which samples the world takes in each step. A step is a function of the cursor before
// it. Of one source: the order of one epoch after the other. Of a mixture (mixed_sequence.cpp): the
// sources' own orders, drawn by weight. Thread rule: none; the owner serialises calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/loader.h"

namespace shardproof {

constexpr std::int64_t filled_row = -1;  // in place of a sample id, where the epoch has ended

// What the world takes in one step, and the position after it.
struct StepPlan {
  std::vector<std::int64_t> ids;  // M x rows
  DataCursor after;
};

class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual DataCursor start() const = 0;
  virtual StepPlan take(const DataCursor& from) = 0;
  // The position at which a run goes on that has left `cursor`: the cursor itself, or, when a remix
  // is allowed and has changed something, the same place with the mixture of this run from there
  // on. Error refused, naming expected and found, unless it is a position of this data that whole
  // steps lead to.
  virtual DataCursor adopt(const DataCursor& cursor, Remix remix) const = 0;
};

std::unique_ptr<Sequence> make_sequence(const Dataset& dataset, const LoaderConfig& config);
std::unique_ptr<Sequence> make_mixed_sequence(const std::vector<Source>& sources,
                                              const LoaderConfig& config);

// The ledger after a step.
Digest chain(const Digest& before, const std::vector<std::int64_t>& ids);

}  // namespace shardproof
