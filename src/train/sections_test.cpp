// ctest: unit
#include "train/sections.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

// A config in which no two values that could be swapped are equal.
Config distinct() {
  Config config;
  config.model = {3, 48, 6, 97, 24, 0.25, 0.0625, true};
  config.data.kind = "tokens";
  config.data.path = "a.bin";
  config.data.samples = 11;
  config.data.ignored = 0.125;
  config.data.packed = true;
  config.data.end_token = 5;
  config.data.last = "short";
  config.data.workers = 4;
  config.training.global_batch = 30;
  config.training.micro_batch = 5;
  config.training.seed = 13;
  config.optimizer.lr = 0.5;
  config.optimizer.beta1 = 0.7;
  config.optimizer.beta2 = 0.8;
  config.optimizer.epsilon = 1e-5;
  config.optimizer.weight_decay = 0.3;
  config.optimizer.warmup = 17;
  config.optimizer.decay_steps = 19;
  config.optimizer.final_ratio = 0.2;
  config.numerics.tensor_pieces = 2;
  config.numerics.sequence_pieces = 4;
  return config;
}

TEST(Sections, Shape) {
  const GptShape shape = shape_of(distinct());
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.width, 48);
  EXPECT_EQ(shape.heads, 6);
  EXPECT_EQ(shape.vocabulary, 97);
  EXPECT_EQ(shape.sequence, 24);
  EXPECT_EQ(shape.tensor_pieces, 2);
  EXPECT_EQ(shape.sequence_pieces, 4);
  EXPECT_EQ(shape.dropout, 0.25);
  EXPECT_TRUE(shape.packed);
  EXPECT_EQ(shape.label_smoothing, 0.0625);
  EXPECT_TRUE(shape.tied);
  EXPECT_FALSE(shape_of({}).tied);
}

TEST(Sections, Optimizer) {
  const AdamWConfig adamw = adamw_of(distinct());
  EXPECT_EQ(adamw.beta1, 0.7);
  EXPECT_EQ(adamw.beta2, 0.8);
  EXPECT_EQ(adamw.epsilon, 1e-5);
  EXPECT_EQ(adamw.weight_decay, 0.3);
  const ScheduleConfig schedule = schedule_of(distinct());
  EXPECT_EQ(schedule.lr, 0.5);
  EXPECT_EQ(schedule.warmup, 17);
  EXPECT_EQ(schedule.total, 19);
  EXPECT_EQ(schedule.final_ratio, 0.2);
}

TEST(Sections, Data) {
  const DatasetConfig dataset = dataset_of(distinct());
  EXPECT_EQ(dataset.kind, "tokens");
  EXPECT_EQ(dataset.path, "a.bin");
  EXPECT_EQ(dataset.samples, 11);
  EXPECT_EQ(dataset.ignored, 0.125);
  EXPECT_TRUE(dataset.packed);
  EXPECT_EQ(dataset.end_token, 5);
  const LoaderConfig loader = loader_of(distinct());
  EXPECT_EQ(loader.micro_batches, 6);
  EXPECT_EQ(loader.rows, 5);
  EXPECT_EQ(loader.length, 24);
  EXPECT_EQ(loader.seed, 13u);
  EXPECT_EQ(loader.last, LastBatch::fill);
  EXPECT_EQ(loader.workers, 4);
  Config dropping = distinct();
  dropping.data.last = "drop";
  EXPECT_EQ(loader_of(dropping).last, LastBatch::drop);
}

}  // namespace
}  // namespace shardproof
