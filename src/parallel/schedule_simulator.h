// schedule_simulator: runs the schedules of all stages of a pipeline on paper. It proves that they
// fit together before any rank waits for another: every micro-batch runs forward and backward
// exactly once on every chunk (so every receive has its send), in an order that each stage can
// keep, and no stages wait for each other in a circle. It gives the times, the bubble and the
// number of micro-batches in flight.
// Model: a send never blocks (stage_link.h), a transfer takes no time, an action waits for the one
// before it on its stage and for the activation or gradient that it receives.
// Torch-free. Thread rule: pure. Not modelled: memory, transfers, collectives inside an action.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule.h"

namespace shardproof {

// In any unit of time, for one chunk. A backward costs about twice a forward: two products for one.
struct ActionCosts {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double of(ActionKind kind) const;
};

struct TimedAction {
  Action action;
  double begin = 0;
  double end = 0;
};

struct StageTimes {
  std::vector<TimedAction> actions;
  double busy = 0;
  int most_in_flight = 0;  // micro-batches x chunks whose activations are kept at once
};

struct Simulation {
  std::vector<StageTimes> stages;  // by pp_rank
  double makespan = 0;
  double bubble(int stage) const;  // idle share of the makespan; 0 of an empty one
  double mean_bubble() const;
};

// Error bad_input at `place`: the first missing, repeated or untimely action, or the circle of
// actions that wait for each other.
Simulation simulate(const std::vector<Schedule>& stages, int chunks, const ActionCosts& costs = {},
                    const std::string& place = "schedule");

// The idle share that the literature gives for m micro-batches on p stages:
// (p-1)/(m+p-1) for gpipe and 1f1b, (p-1)/(Vm+p-1) for intV; for zb the bubble is
// (p-1)(f+i-w) beside m(f+i+w) of work, once m >= p.
double bubble_formula(const Layout& layout, int micro_batches, const ActionCosts& costs = {});

}  // namespace shardproof
