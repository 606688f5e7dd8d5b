// pipeline_rules: when a pipeline is legal: enough layers for its stages, micro-batches that its
// schedule can serve, stage sizes that add up, schedules that fit together. Each refusal names the
// rule and the nearest legal values. Torch-free. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "mesh/layout.h"
#include "model/gpt_shape.h"
#include "parallel/schedule.h"

namespace shardproof {

// Empty when legal, else one sentence. `micro_batches` of the whole step. `stage_layers`: of the
// config, empty when it gives none.
std::string pipeline_problem(const Layout& layout, const GptShape& shape, int micro_batches,
                             const std::vector<int>& stage_layers = {});

// The rule about micro-batches alone.
std::string rounds_problem(const Layout& layout, int micro_batches);

// What the simulator finds wrong with the schedules of all stages: an action that is missing, or a
// circle of stages that wait for each other.
std::string schedule_problem(const Layout& layout, const std::vector<Schedule>& stages);

}  // namespace shardproof
