// sections: config sections as the structs that modules take.
#include "train/sections.h"

#include <set>

#include "base/digest.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

// Nothing is cut further than the layout does.
void cut_as_the_layout(GptShape& shape, const Layout& layout) {
  const bool ulysses = layout.context_kind == "ulysses";
  shape.tensor_pieces = layout.tp * (ulysses ? layout.cp : 1);
  shape.sequence_pieces = layout.cp * (layout.cp > 1 && layout.context_kind == "zigzag" ? 2 : 1) *
                          (layout.sequence_parallel ? layout.tp : 1);
}

OffloadTo offload_to(const std::string& name) {
  if (name == "none") return OffloadTo::none;
  return name == "host" ? OffloadTo::host : OffloadTo::file;
}

}  // namespace

GptShape shape_of(const Config& config) {
  GptShape shape;
  shape.layers = config.model.layers;
  shape.width = config.model.width;
  shape.heads = config.model.heads;
  shape.vocabulary = config.model.vocabulary;
  shape.sequence = config.model.sequence;
  shape.tensor_pieces = config.numerics.tensor_pieces;
  shape.sequence_pieces = config.numerics.sequence_pieces;
  shape.dropout = config.model.dropout;
  shape.packed = config.data.packed;
  shape.label_smoothing = config.model.label_smoothing;
  shape.tied = config.model.tied;
  if (config.numerics.reduction == "native") {
    cut_as_the_layout(shape, parse_layout(config.run.layout));
  }
  return shape;
}

AdamWConfig adamw_of(const Config& config) {
  return {config.optimizer.beta1, config.optimizer.beta2, config.optimizer.epsilon,
          config.optimizer.weight_decay};
}

ScheduleConfig schedule_of(const Config& config) {
  return {config.optimizer.lr, config.optimizer.warmup, config.optimizer.decay_steps,
          config.optimizer.final_ratio};
}

DatasetConfig dataset_of(const Config& config) {
  DatasetConfig out{config.data.kind,    config.data.path,   config.data.samples,
                    config.data.ignored, config.data.packed, config.data.end_token};
  for (const SourceSection& source : config.data.sources) {
    out.sources.push_back({source.name, source.weight, source.kind, source.path, source.samples});
  }
  return out;
}

LoaderConfig loader_of(const Config& config) {
  LoaderConfig loader;
  loader.micro_batches = config.micro_batches();
  loader.rows = config.training.micro_batch;
  loader.length = config.model.sequence;
  loader.seed = static_cast<std::uint64_t>(config.training.seed);
  loader.last = config.data.last == "short" ? LastBatch::fill : LastBatch::drop;
  loader.workers = config.data.workers;
  return loader;
}

PlanOptions plan_of(const Config& config) {
  PlanOptions plan;
  plan.shape = shape_of(config);
  plan.micro_batches = config.micro_batches();
  plan.seed = static_cast<std::uint64_t>(config.training.seed);
  plan.native = config.numerics.reduction == "native";
  plan.stage_layers = config.parallel.stage_layers;
  plan.unit_layers = config.parallel.unit_layers;
  plan.flow = {config.parallel.prefetch_forward, config.parallel.prefetch_backward,
               config.parallel.reshard_after_forward};
  plan.bucket_bytes = config.parallel.bucket_bytes;
  plan.overlap = config.parallel.overlap;
  plan.offload = {offload_to(config.parallel.offload_optimizer),
                  offload_to(config.parallel.offload_parameters), config.parallel.offload_directory,
                  config.parallel.offload_window};
  return plan;
}

std::string packing_of(const Config& config) {
  return config.data.packed ? "documents" : "none";
}

Json parameter_groups_of(const Config& config) {
  std::set<std::string> decay, no_decay;  // a parameter may be cut into several pieces
  for (const PieceSpec& piece : gpt_pieces(shape_of(config))) {
    (decays(piece.name, config.optimizer.no_decay) ? decay : no_decay).insert(piece.name);
  }
  const auto group = [](const std::set<std::string>& names) {
    Sha256 hash;
    for (const std::string& name : names) hash.update(name + "\n");
    return Json{{"parameters", names.size()}, {"names_sha256", hash.finish().hex()}};
  };
  return Json{{"decay", group(decay)}, {"no_decay", group(no_decay)}};
}

}  // namespace shardproof
