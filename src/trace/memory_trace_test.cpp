// ctest: unit
// A trace in memory holds what read_trace gives of the same run in files.
#include "trace/memory_trace.h"

#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

void write_run(const TraceOptions& options, int rank) {
  TraceWriter trace(options, rank, 2);
  const float values[] = {0.1f, -2.5f, 1e-30f};
  TensorView view;
  view.place.name = "w";
  view.place.global_shape = {6};
  view.place.piece = rank;
  view.place.box = {{3 * rank}, {3}};
  view.place.is_run = true;
  view.place.range = {0, 3};
  view.data = values;
  trace.run(Json{{"layout", "tp2"}});
  trace.tensors(-1, "param", std::vector<TensorView>{view});
  for (std::int64_t step = 0; step < 2; ++step) {
    trace.at(step, Phase::forward);
    trace.tensors(step, "param", std::vector<TensorView>{view});
    StepRecord record;
    record.step = step;
    record.loss = 0.1 + static_cast<double>(step);
    record.grad_norm = 1.0 / 3;
    record.lr = 1e-3;
    record.tokens = 5;
    record.samples = {3, 4};
    record.extra["clip_factor"] = 0.5;
    trace.step(record);
    trace.event(Json{{"kind", "memory"}, {"step", step}});
  }
  trace.checkpoint(2, "ckpt", true);
  trace.end(2);
}

Json as_json(const Trace& trace) {
  Json out = Json::array();
  for (const RankTrace& rank : trace.ranks) {
    Json json{{"rank", rank.rank},
              {"world", rank.world},
              {"run", rank.run},
              {"runs", rank.runs},
              {"others", rank.others},
              {"ended", rank.ended.value_or(-1)},
              {"torn", rank.torn},
              {"ascending", rank.ascending},
              {"at", rank.last_at ? rank.last_at->phase : ""}};
    json["run"].erase("pid");
    for (const StepRecord& step : rank.steps) json["steps"].push_back(to_json(step));
    for (const TensorRecord& tensor : rank.tensors) json["tensors"].push_back(to_json(tensor));
    for (const CheckpointRecord& saved : rank.checkpoints) {
      json["checkpoints"].push_back({saved.step, saved.path, saved.done});
    }
    out.push_back(json);
  }
  return out;
}

TEST(MemoryTrace, HoldsWhatTheFilesHold) {
  const TempFolder folder;
  TraceOptions options;
  options.directory = folder.path();
  options.digest = true;
  options.memory = std::make_shared<MemoryTrace>();
  for (const int rank : {1, 0}) write_run(options, rank);
  const Trace memory = options.memory->take();
  EXPECT_EQ(as_json(memory), as_json(read_trace(folder.path())));
  EXPECT_EQ(memory.world(), 2);
  ASSERT_EQ(memory.ranks.size(), 2u);
  EXPECT_EQ(memory.ranks[0].tensors.size(), 3u);
  EXPECT_TRUE(options.memory->take().ranks.empty()) << "taken once";
}

TEST(MemoryTrace, NeedsNoFolder) {
  TraceOptions options;
  options.digest = true;
  options.match = "nothing of this name";
  options.memory = std::make_shared<MemoryTrace>();
  write_run(options, 0);
  const Trace trace = options.memory->take();
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].steps.size(), 2u);
  EXPECT_TRUE(trace.ranks[0].tensors.empty());
}

}  // namespace
}  // namespace shardproof
