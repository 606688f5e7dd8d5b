// legality: whether a layout is legal for a model, before anything is started. Each refusal names
// the rule and the nearest legal values. Torch-free. Pure.
#pragma once

#include <string>
#include <vector>

#include "mesh/layout.h"
#include "model/gpt_shape.h"

namespace shardproof {

// Empty when legal, else one sentence. `ranks` 0: any world size. `stage_layers`: of the config.
std::string problem(const Layout& layout, const GptShape& shape, int micro_batches, int ranks = 0,
                    const std::vector<int>& stage_layers = {});

}  // namespace shardproof
