// state_trace: a plan's shards as the trace's tensors.
#include "train/state_trace.h"

#include <vector>

#include "train/metrics.h"

namespace shardproof {
namespace {

void add_views(std::vector<TensorView>& views, Plan& plan, const std::string& what,
               const std::string& suffix) {
  for (const StateShard& shard : plan.shards(what, true)) {
    const PieceSpec& piece = plan.table().pieces()[static_cast<std::size_t>(shard.piece_index)];
    TensorView view;
    view.place.name = piece.name + suffix;
    view.place.global_shape = piece.global_shape;
    view.place.piece = piece.piece;
    view.place.box = piece.box;
    view.place.is_run = true;
    view.place.range = shard.range;
    view.dtype = Dtype::f32;
    view.data = shard.data;
    views.push_back(std::move(view));
  }
}

Json by_use(const MemoryLedger::ByUse& bytes) {
  Json json = Json::object();
  for (int i = 0; i < memory_use_count; ++i) {
    json[name(static_cast<MemoryUse>(i))] = bytes[static_cast<std::size_t>(i)];
  }
  return json;
}

}  // namespace

void trace_state(TraceWriter& trace, Plan& plan, std::int64_t step, const std::string& what) {
  if (!trace.wants_tensors(step)) return;
  std::vector<TensorView> views;
  if (what == "moment") {
    for (const char* moment : {"exp_avg", "exp_avg_sq", "master"}) {
      add_views(views, plan, moment, std::string("/") + moment);
    }
  } else {
    add_views(views, plan, what, "");
  }
  trace.tensors(step, what, views);
}

void trace_memory(TraceWriter& trace, const Plan& plan, const MemoryLedger* ledger,
                  const OffloadLedger& moved, std::int64_t step) {
  const PlanBytes bytes = plan.bytes();
  Json line{{"kind", "memory"}, {"step", step}, {"phase", "optimizer"}};
  line["bytes"] = Json{{"optimizer", bytes.optimizer},
                       {"optimizer_offloaded", bytes.optimizer_offloaded},
                       {"optimizer_exact", bytes.optimizer_exact},
                       {"units", bytes.units},
                       {"parameters", bytes.parameters},
                       {"parameters_offloaded", bytes.parameters_offloaded},
                       {"gathered", bytes.gathered},
                       {"gradients", bytes.gradients},
                       {"communication", bytes.communication}};
  if (bytes.optimizer_offloaded + bytes.parameters_offloaded > 0) line["offload"] = to_json(moved);
  if (ledger != nullptr) {
    line["live"] = by_use(ledger->live());
    line["peak"] = by_use(ledger->peak());
    line["peak"]["total"] = ledger->peak_total();
  }
  trace.event(line);
}

}  // namespace shardproof
