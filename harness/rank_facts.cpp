// rank_facts: texts that are compared as they are.
#include "harness/rank_facts.h"

#include "harness/rank_faults.h"
#include "train/program.h"

namespace shardproof {
namespace {

std::string on_or_off(bool on) {
  return on ? "on" : "off";
}

}  // namespace

bool wants_metrics(const RunRequest& request) {
  return !request.metrics_file.empty() || !request.metrics_directory.empty();
}

TraceOptions traced_with_fault(const RunRequest& request) {
  TraceOptions options = request.trace;
  if (!request.config.run.fault.empty() && !is_injected(request.config.run.fault)) {
    options.fault = parse_trace_fault(request.config.run.fault);
  }
  return options;
}

std::vector<Fact> request_facts(const RunRequest& request) {
  std::vector<Fact> facts{{"checkpoint to resume", request.resume.value_or("none")},
                          {"--fallback", on_or_off(request.fallback)},
                          {"--new-case", on_or_off(!request.new_case_from.empty())},
                          {"--metrics", on_or_off(wants_metrics(request))},
                          {"--trace", on_or_off(!request.trace.directory.empty())},
                          {"fault", on_or_off(traced_with_fault(request).fault.has_value())}};
  Config same = request.config;
  same.data.path.clear();
  for (SourceSection& source : same.data.sources) source.path.clear();
  const Json config = to_json(same);
  for (const auto& [section, keys] : config.items()) {
    for (const auto& [key, value] : keys.items()) {
      const std::string name = section + "." + key;
      if (name != "data.workers") facts.push_back({name, value.dump()});
    }
  }
  return facts;
}

std::vector<Fact> program_facts(const Dataset& dataset, int world) {
  return {{"world size", std::to_string(world)},
          {"data", dataset.digest().hex()},
          {"tokenizer", dataset.tokenizer_digest().hex()},
          {"program", program().code},
          {"kernels", program().kernels}};
}

}  // namespace shardproof
