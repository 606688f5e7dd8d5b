// writer: one append a line, and the fault that was asked for.
#include "trace/writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "trace/append_file.h"
#include "trace/tensor_digest.h"
#include "trace/tensor_file.h"
#include "trace/tensor_place.h"

namespace shardproof {
namespace {

constexpr int schema = 1;

// A name from outside may hold any bytes: they are replaced rather than the run ended.
std::string print_line(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void fire(const TraceFault& fault) {
  switch (fault.kind) {
    case TraceFault::Kind::kill:
      ::kill(::getpid(), SIGKILL);
      return;
    case TraceFault::Kind::stop:
      // To this thread: one sent to the process may be taken by another, and this one runs on.
      std::raise(SIGSTOP);
      return;
    case TraceFault::Kind::delay:
      Clock::real().sleep_for(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(fault.seconds)));
      return;
  }
}

}  // namespace

std::int64_t TensorView::elements() const {
  return element_count(place);
}

struct TraceWriter::Impl {
  Impl(TraceOptions given, int rank, int world)
      : options(std::move(given)),
        rank(rank),
        world(world),
        match(options.match),
        file(fmt::format("{}/rank_{:05d}.jsonl", options.directory, rank)) {}

  bool captures(std::int64_t step) const {
    return options.capture_all || options.capture.contains(step);
  }
  void write(const Json& line) { file.append(print_line(line)); }

  TraceOptions options;
  int rank;
  int world;
  std::regex match;
  AppendFile file;
};

TraceWriter::TraceWriter(TraceOptions options, int rank, int world) {
  SP_CHECK(0 <= rank && rank < world,
           "rank " + std::to_string(rank) + " of " + std::to_string(world));
  if (options.directory.empty()) return;
  if (options.fault && options.fault->rank >= world) {
    throw Error(ErrorKind::bad_input, "SHARDPROOF_FAULT",
                fmt::format("rank {}: expected a rank below the world size {}", options.fault->rank,
                            world));
  }
  impl_ = std::make_unique<Impl>(std::move(options), rank, world);
}

TraceWriter::~TraceWriter() = default;

bool TraceWriter::enabled() const {
  return impl_ != nullptr;
}

bool TraceWriter::wants_tensors(std::int64_t step) const {
  return enabled() && (impl_->options.digest || impl_->captures(step));
}

void TraceWriter::run(const Json& facts) {
  if (!enabled()) return;
  Json line{{"kind", "run"},
            {"schema", schema},
            {"rank", impl_->rank},
            {"world", impl_->world},
            {"pid", ::getpid()}};
  for (const auto& item : facts.items()) {
    SP_CHECK(!line.contains(item.key()), "run event: fact " + item.key());
    line[item.key()] = item.value();
  }
  impl_->write(line);
}

void TraceWriter::at(std::int64_t step, Phase phase) {
  if (!enabled()) return;
  impl_->write({{"kind", "at"}, {"step", step}, {"phase", name(phase)}});
  const std::optional<TraceFault>& fault = impl_->options.fault;
  if (fault && fault->rank == impl_->rank && fault->step == step && fault->phase == phase) {
    fire(*fault);
  }
}

void TraceWriter::step(const StepRecord& record) {
  if (enabled()) impl_->write(to_json(record));
}

void TraceWriter::checkpoint(std::int64_t step, const std::string& path, bool done) {
  if (!enabled()) return;
  impl_->write(
      {{"kind", "checkpoint"}, {"step", step}, {"path", path}, {"state", done ? "done" : "begun"}});
}

void TraceWriter::end(std::int64_t step) {
  if (enabled()) impl_->write({{"kind", "end"}, {"step", step}});
}

void TraceWriter::event(const Json& line) {
  if (!enabled()) return;
  SP_CHECK(line.is_object() && line.contains("kind"), "event without kind: " + print_line(line));
  impl_->write(line);
}

void TraceWriter::tensors(std::int64_t step, const std::string& what,
                          std::span<const TensorView> views) {
  if (!wants_tensors(step)) return;
  std::vector<TensorView> wanted;
  std::copy_if(views.begin(), views.end(), std::back_inserter(wanted),
               [&](const auto& view) { return std::regex_search(view.place.name, impl_->match); });
  if (impl_->options.digest) {
    for (const TensorView& view : wanted) impl_->write(to_json(digest_tensor(step, what, view)));
  }
  if (impl_->captures(step)) {
    write_tensor_file(impl_->options.directory + "/" + tensor_file_name(step, what, impl_->rank),
                      wanted);
  }
}

void append_harness_event(const std::string& directory, const Json& event) {
  AppendFile(directory + "/harness.jsonl").append(print_line(event));
}

}  // namespace shardproof
