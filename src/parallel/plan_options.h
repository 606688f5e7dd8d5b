// plan_options: what a plan needs to know beside the mesh. Torch-free. Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gpt_shape.h"

namespace shardproof {

// Which units of sharded parameters are whole when (parameter_flow.h).
struct FlowOptions {
  int prefetch_forward = 1;  // units gathered ahead
  int prefetch_backward = 1;
  bool reshard_after_forward = true;
};

enum class OffloadTo { none, host, file };

// What lives away from the device between its uses (offload.h).
struct OffloadOptions {
  OffloadTo optimizer = OffloadTo::none;
  OffloadTo parameters = OffloadTo::none;       // ZeRO 3: the shares
  std::string directory;                        // of files
  std::int64_t window = std::int64_t{1} << 20;  // bytes of optimizer state on the device at once
};

struct PlanOptions {
  GptShape shape;
  int micro_batches = 4;  // M
  std::uint64_t seed = 0;
  bool native = false;            // gradients by the backend's own sums
  std::vector<int> stage_layers;  // pipeline: layers of every virtual stage; empty: balanced
  int unit_layers = 1;            // ZeRO 2 and 3: blocks of a unit (units.h)
  FlowOptions flow;               // ZeRO 3
  OffloadOptions offload;
  std::int64_t bucket_bytes = std::int64_t{4} << 20;  // native data parallelism
  bool overlap = true;                                // native data parallelism
};

}  // namespace shardproof
