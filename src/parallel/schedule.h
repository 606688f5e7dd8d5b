// schedule: who does what when in a pipeline, as data: the list of actions of every stage. Pure
// functions make it from the layout; an executor walks the list; schedule_simulator.h proves that
// the lists of all stages fit together.
// A rank of `pp` stages holds `chunks` runs of layers: chunk c of pipeline rank r is the virtual
// stage c * pp + r. Micro-batches are the global indices that the data rank owns, ascending.
//   gpipe  all forwards, then all backwards (Huang et al., "GPipe", 2019)
//   1f1b   as many forwards as there are stages behind, then one forward, one backward
//          (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", 2021)
//   intV   1f1b over V chunks a rank, in rounds of pp micro-batches (Narayanan et al., "Efficient
//          large-scale language model training", 2021)
//   zb     ZB-H1 (Qi et al., "Zero bubble pipeline parallelism", 2023): the backward is split into
//          input and weight gradients; stage r runs the weight gradients r micro-batches later,
//          and so fills the bubble with the memory of 1f1b's first stage
// Guarantee: on every stage the forwards, backwards and weight gradients of a chunk ascend in the
// micro-batch index (gpipe too), so arrival order and the number of tree partials are the same.
// Torch-free. Thread rule: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/layout.h"

namespace shardproof {

enum class ActionKind : std::uint8_t {
  forward,
  backward,         // both gradients at once
  backward_input,   // of the activations, for the stage before
  backward_weight,  // of the parameters, from what backward_input kept
};

struct Action {
  ActionKind kind = ActionKind::forward;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;

std::string_view letter(ActionKind kind);  // "F", "B", "I", "W"
std::string print(const Action& action);   // "F3", of a later chunk "F3.1"

// V of intV, else 1: how many runs of layers a rank holds.
int chunks_of(const Layout& layout);

// The micro-batches that the data rank of these coordinates runs.
// Precondition: micro_batches.size() is a multiple of pp for intV (see legality.h).
Schedule stage_schedule(const Layout& layout, int pp_rank, const std::vector<int>& micro_batches);

// Of every stage, by pp_rank.
std::vector<Schedule> all_stages(const Layout& layout, const std::vector<int>& micro_batches);

}  // namespace shardproof
