// lone_leg: weights from a trace, gradients from the model, a trace from both.
#include "harness/lone_leg.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "harness/output_path.h"
#include "invariants/tensor_grid.h"
#include "trace/writer.h"
#include "train/program.h"

namespace shardproof {
namespace {

std::vector<TensorView> views(const PieceTable& table, Dtype dtype, const auto& data_of) {
  std::vector<TensorView> out;
  for (const PieceSpec& piece : table.pieces()) {
    TensorView view;
    view.place.name = piece.name;
    view.place.global_shape = piece.global_shape;
    view.place.box = piece.box;
    view.dtype = dtype;
    view.data = data_of(piece.name);
    out.push_back(std::move(view));
  }
  return out;
}

void write_gradients(TraceWriter& writer, const PieceTable& table, const LoneStep& step,
                     bool float64) {
  const auto wide = [&](const std::string& name) -> const void* {
    return step.gradients.at(name).data();
  };
  Weights narrow;  // exact: they were float32
  if (!float64) {
    for (const auto& [name, values] : step.gradients)
      narrow[name].assign(values.begin(), values.end());
  }
  const auto single = [&](const std::string& name) -> const void* {
    return narrow.at(name).data();
  };
  writer.tensors(step.step, "grad",
                 float64 ? views(table, Dtype::f64, wide) : views(table, Dtype::f32, single));
}

}  // namespace

Weights weights_before(const Trace& trace, std::int64_t step) {
  const BytesMap entries = bytes_at(trace, step - 1, "param");
  if (entries.empty()) {
    throw Error(ErrorKind::corrupt, trace.directory,
                fmt::format("holds no parameters of step {}", step - 1));
  }
  Weights out;
  for (const auto& [name, held] : entries) out[name] = assemble(held).floats();
  return out;
}

void write_lone_trace(const Config& config, const std::vector<LoneRecord>& records, bool float64,
                      const std::string& directory) {
  TraceOptions options;
  options.directory = directory;
  options.capture_all = true;
  TraceWriter writer(options, 0, 1);
  writer.run(Json{{"coords", Json::object()},
                  {"code", program().code},
                  {"versions", program().versions},
                  {"kernels", program().kernels},
                  {"config", to_json(config)},
                  {"layout", "dp1"},
                  {"arithmetic", float64 ? "float64" : "float32"},
                  {"tensors", "some"}});
  const PieceTable table = whole_table(config);
  for (const auto& [step, weights] : records) {
    const auto value = [&](const std::string& name) -> const void* {
      return weights.at(name).data();
    };
    writer.tensors(step.step - 1, "param", views(table, Dtype::f32, value));
    write_gradients(writer, table, step, float64);
    StepRecord record;
    record.step = step.step;
    record.loss = step.loss;
    record.grad_norm = step.grad_norm();
    record.tokens = step.tokens;
    record.samples = step.samples;
    writer.step(record);
  }
  writer.end(records.empty() ? 0 : records.back().step.step + 1);
}

LegResult run_lone_leg(const Leg& leg, const Trace& trace, const std::string& directory) {
  const std::filesystem::path root(directory);
  make_fresh_folder(directory);
  LegResult out;
  out.leg = leg;
  const Duration begun = Clock::real().now();
  try {
    make_folder((root / "trace").string());
    std::vector<LoneRecord> records;
    for (const std::int64_t step : leg.capture) {
      Weights weights = step == 0 ? initial_weights(leg.config) : weights_before(trace, step);
      LoneStep done = lone_step(leg.config, step, weights, leg.float64);
      records.push_back({std::move(done), std::move(weights)});
    }
    write_lone_trace(leg.config, records, leg.float64, (root / "trace").string());
    out.trace = read_trace((root / "trace").string());
  } catch (const Error& error) {
    out.error = error;
  }
  out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  return out;
}

}  // namespace shardproof
