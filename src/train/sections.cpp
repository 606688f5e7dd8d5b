// sections: config sections as the structs that modules take.
#include "train/sections.h"

namespace shardproof {

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
  return {config.data.kind, config.data.path, config.data.samples, config.data.ignored,
          config.data.packed, config.data.end_token};
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

}  // namespace shardproof
