// native_legs: legs from a leg, and the traces that the verdict is over.
#include "harness/native_legs.h"

#include "invariants/trace_checks.h"
#include "train/sections.h"

namespace shardproof {
namespace {

// Whether native reduction on this layout cuts any tensor: not where it only splits the batch.
bool cuts_tensors(const Config& config) {
  const GptShape shape = shape_of(config);
  return shape.tensor_pieces * shape.sequence_pieces > 1;
}

std::vector<std::string> reference_names(const Config& config) {
  std::vector<std::string> out{"float32"};
  if (cuts_tensors(config)) out.push_back("float32-cut");
  return out;
}

}  // namespace

std::vector<Leg> lone_legs(const Leg& main) {
  std::vector<Leg> out;
  std::vector<std::string> names = reference_names(main.config);
  names.insert(names.begin(), "float64");
  for (const std::string& name : names) {
    Leg leg{name, main.config, {}, std::nullopt};
    leg.weights_of = main.name;
    leg.float64 = name == "float64";
    leg.config.checkpoint = {};
    if (name != "float32-cut") {
      leg.config.run.layout = "dp1";
      leg.config.parallel = {};
    }
    for (const std::int64_t step : main.capture) {
      if (step >= 0 && main.capture.contains(step - 1)) leg.capture.insert(step);
    }
    out.push_back(leg);
  }
  return out;
}

std::vector<std::string> native_legs(const Config& config) {
  std::vector<std::string> out = reference_names(config);
  out.insert(out.begin(), "float64");
  out.push_back("main");
  return out;
}

Verdict judge_native_layout(const Config& config, const Traces& traces) {
  std::vector<const Trace*> references;
  for (const std::string& leg : reference_names(config)) {
    references.push_back(&trace_of(traces, leg));
  }
  return check_native_layout(trace_of(traces, "float64"), references, trace_of(traces, "main"));
}

}  // namespace shardproof
