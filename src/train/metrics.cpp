// metrics: scopes add wall time; one line a step.
#include "train/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double ratio(double over, double under) {
  return under > 0 ? over / under : 0;
}

// Two runs at once never share a file.
void create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) {
    ::close(fd);
    return;
  }
  const int error = errno;
  struct stat status {};
  const bool special =
      ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (error == EEXIST && special) return;
  if (error == EEXIST) {
    throw Error(ErrorKind::conflict, path, "exists already; metrics are never added to a file");
  }
  throw Error(ErrorKind::io, "open " + path, std::strerror(error));
}

}  // namespace

std::string_view name(Part part) {
  switch (part) {
    case Part::data:
      return "data";
    case Part::forward:
      return "forward";
    case Part::backward:
      return "backward";
    case Part::communication:
      return "communication";
    case Part::optimizer:
      return "optimizer";
    case Part::checkpoint:
      return "checkpoint";
  }
  return "?";
}

double StepMetrics::tokens_per_second() const {
  return ratio(static_cast<double>(tokens), seconds);
}

double StepMetrics::bytes_per_second() const {
  return ratio(static_cast<double>(bytes_sent),
               parts[static_cast<std::size_t>(Part::communication)]);
}

double StepMetrics::utilisation() const {
  return ratio(ratio(flops, seconds), peak_flops);
}

Json StepMetrics::to_json() const {
  Json by_part = Json::object();
  for (int i = 0; i < part_count; ++i) {
    by_part[std::string(name(static_cast<Part>(i)))] = parts[static_cast<std::size_t>(i)];
  }
  Json json{{"step", step},
            {"loss", loss},
            {"grad_norm", grad_norm},
            {"lr", lr},
            {"tokens", tokens},
            {"seconds", seconds},
            {"tokens_per_second", tokens_per_second()},
            {"parts", by_part},
            {"pipeline_idle", pipeline_idle},
            {"flops", flops},
            {"peak_flops", peak_flops},
            {"utilisation", utilisation()},
            {"bytes_sent", bytes_sent},
            {"bytes_per_second", bytes_per_second()},
            {"memory_max", memory_max},
            {"memory_mean", memory_mean},
            {"offload", shardproof::to_json(offload)}};
  for (const SourceMetrics& source : sources) {
    json["sources"][source.name] = Json{{"samples", source.samples}, {"tokens", source.tokens}};
  }
  return json;
}

Json to_json(const OffloadLedger& ledger) {
  const auto of = [](const OffloadTraffic& traffic) {
    return Json{{"bytes_in", traffic.bytes_in},
                {"bytes_out", traffic.bytes_out},
                {"calls", traffic.calls},
                {"seconds", seconds(traffic.time)}};
  };
  return Json{{"optimizer", of(ledger.optimizer)},
              {"parameters", of(ledger.parameters)},
              {"views", of(ledger.views)}};
}

struct Metrics::Impl {
  explicit Impl(Clock& real) : clock(real) {}

  Clock& clock;
  std::string path;
  std::ofstream file;
  Duration started{};
  bool in_scope = false;
  StepMetrics current;
  StepMetrics last;
};

Metrics::Metrics(const std::string& path, Clock& clock, bool continued)
    : impl_(std::make_unique<Impl>(clock)) {
  if (path.empty()) return;
  impl_->path = path;
  if (!continued) create(path);
  impl_->file.open(path, std::ios::app);
  if (!impl_->file) throw Error(ErrorKind::io, "open " + path, std::strerror(errno));
}

Metrics::~Metrics() = default;

Metrics::Scope::Scope(Metrics& metrics, Part part)
    : metrics_(metrics), part_(part), start_(metrics.impl_->clock.now()) {
  SP_CHECK(!metrics_.impl_->in_scope, "metric scopes do not nest");
  metrics_.impl_->in_scope = true;
}

Metrics::Scope::~Scope() {
  Impl& impl = *metrics_.impl_;
  impl.in_scope = false;
  impl.current.parts[static_cast<std::size_t>(part_)] += seconds(impl.clock.now() - start_);
}

// What was timed since the last end_step (a checkpoint) stays in `current` and counts here.
void Metrics::begin_step(std::int64_t step) {
  impl_->current.step = step;
  impl_->started = impl_->clock.now();
}

StepMetrics& Metrics::current() {
  return impl_->current;
}

void Metrics::end_step() {
  Impl& impl = *impl_;
  impl.current.seconds = seconds(impl.clock.now() - impl.started);
  impl.last = impl.current;
  impl.current = {};
  if (impl.path.empty()) return;
  errno = 0;
  impl.file << impl.last.to_json().dump() << '\n' << std::flush;
  if (!impl.file) throw Error(ErrorKind::io, "write " + impl.path, std::strerror(errno));
}

const StepMetrics& Metrics::last() const {
  return impl_->last;
}

}  // namespace shardproof
