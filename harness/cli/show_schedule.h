// show_schedule: the timeline of every stage of a pipeline and its bubble beside the formula, from
// the simulator (parallel/schedule_simulator.h). One unit of time is a forward of a chunk; the
// gradients of its input and of its weights take one unit each.
#pragma once

#include <string>

#include "base/json.h"
#include "mesh/layout.h"

namespace shardproof {

struct ShownSchedule {
  std::string text;
  Json json;
};

// `micro_batches` of one data rank. Error bad_input: no pipeline, or one that cannot serve them.
ShownSchedule show_schedule(const Layout& layout, int micro_batches);

}  // namespace shardproof
