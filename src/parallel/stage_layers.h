// stage_layers: which layers, and which parameters, each virtual stage of a pipeline holds:
// balanced contiguous runs, or runs of given sizes. The embeddings are on the first stage, the
// final norm and the head on the last; a tied embedding,
// which the head uses too, is on both. Virtual stage = chunk * pp + pp_rank (see schedule.h).
// Torch-free. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "mesh/layout.h"
#include "model/gpt_shape.h"

namespace shardproof {

struct LayerRange {
  int first = 0;
  int last = 0;  // [first, last)
  bool operator==(const LayerRange&) const = default;
};

int virtual_stages(const Layout& layout);  // pp x chunks

// By virtual stage. `sizes`: parallel.stage_layers of the config; empty: balanced.
// Precondition: pipeline_problem (pipeline_rules.h) is empty.
std::vector<LayerRange> stage_layers(const Layout& layout, int layers,
                                     const std::vector<int>& sizes = {});
// Of the chunks of one pipeline rank.
std::vector<LayerRange> chunk_layers(const Layout& layout, int pp_rank, int layers,
                                     const std::vector<int>& sizes = {});

// Whether a stage of these layers holds a parameter ("blocks.3.ln1.weight"), by its name.
bool holds(const LayerRange& stage, const GptShape& shape, const std::string& parameter);

}  // namespace shardproof
