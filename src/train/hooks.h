// hooks: where tests and faults may look at and change a training state between phases. The default
// does nothing. Thread rule: called on the rank's thread.
#pragma once

#include <cstdint>

#include "parallel/plan.h"
#include "trace/event.h"

namespace shardproof {

class Hooks {
 public:
  virtual ~Hooks() = default;
  // The state before the run's first step, as made or loaded.
  virtual void begin(Plan& plan);
  // Before a phase is entered: before the trace's `at` line, and a fault that fires there.
  virtual void entering(std::int64_t step, Phase phase);
  // On entering a phase, after the trace's `at` line. `plan` gives a mutable view of the state.
  virtual void phase(std::int64_t step, Phase phase, Plan& plan);
  // The learning rate of a step; `rate` is the schedule's.
  virtual double learning_rate(std::int64_t step, double rate);
};

}  // namespace shardproof
