// prepare: in the order in which a mistake costs least.
#include "harness/prepare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "harness/output_path.h"
#include "harness/rank_faults.h"
#include "mesh/layout.h"
#include "train/program.h"
#include "train/sections.h"

namespace shardproof {
// Before anything is laid out: parameters and a gradient arena for every copy of the model on this
// machine (4 + 4 bytes an element), masters and moments once (12, none in a file). Less than what a
// run takes, so no run that fits is refused; one that cannot fit would take the machine down with
// it.
void check_memory(const Config& config, bool all_ranks) {
  const Layout layout = parse_layout(config.run.layout);
  const int copies = all_ranks ? layout.dp * layout.cp : 1;
  const double parameters = parameter_count(shape_of(config));
  const double state = config.parallel.offload_optimizer == "file" ? 0 : 12;
  const double needed = (8.0 * copies + state) * parameters;
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (needed <= there) return;
  throw Error(
      ErrorKind::environment, "model",
      fmt::format("{:.3g} parameters on {} need more than {:.1f} GiB; this machine has {:.1f} GiB",
                  parameters, layout.print(), needed / (1 << 30), there / (1 << 30)));
}

Config usable_anywhere(Config config) {
  const auto settle = [](std::string& path) {
    if (!path.empty()) path = std::filesystem::absolute(path).lexically_normal().string();
  };
  settle(config.data.path);
  settle(config.training.warm_start);
  for (SourceSection& source : config.data.sources) settle(source.path);
  return config;
}

void check_world_size(const Config& config) {
  const Layout layout = parse_layout(config.run.layout);
  const int ranks = layout.world() + config.run.spares;
  if (ranks <= most_ranks) return;
  throw Error(ErrorKind::bad_input, "run.layout",
              fmt::format("{} needs {} ranks; expected at most {} on one machine", layout.print(),
                          ranks, most_ranks));
}

Duration wait_limit(const Config& config) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config.run.deadline));
}

std::shared_ptr<const Dataset> prepare(const RunRequest& request) {
  check(request.config);
  check_memory(request.config, request.config.run.backend == "threads");
  check_injected_faults(request.config);
  const std::string& fault = request.config.run.fault;
  const bool faulty = request.trace.fault || (!fault.empty() && !is_injected(fault));
  if (faulty && request.trace.directory.empty() && !request.trace.memory) {
    throw Error(ErrorKind::bad_input, "fault", "fires from the trace; expected a trace folder");
  }
  use_numerics(request.config.numerics.portable);
  if (!request.trace.directory.empty()) make_folder(request.trace.directory);
  if (request.dataset) return request.dataset;
  const Duration began = Clock::real().now();
  auto dataset = open_dataset(dataset_of(request.config), request.config.model.sequence,
                              request.config.model.vocabulary,
                              static_cast<std::uint64_t>(request.config.training.seed));
  tell_part(request, "data", began);
  return dataset;
}

void tell_part(const RunRequest& request, const char* part, Duration began) {
  if (!request.on_part) return;
  request.on_part(part, std::chrono::duration<double>(Clock::real().now() - began).count());
}

}  // namespace shardproof
