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
#include "trace/memory_trace.h"
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
      : options(std::move(given)), rank(rank), world(world) {
    if (!options.match.empty()) match.emplace(options.match);
    if (!options.directory.empty()) {
      file.emplace(fmt::format("{}/rank_{:05d}.jsonl", options.directory, rank));
    }
    if (options.memory) memory = &options.memory->rank(rank);
  }

  bool captures(std::int64_t step) const {
    return file && (options.capture_all || options.capture.contains(step));
  }
  // `make` gives the line; `keep` is what it comes to in memory.
  template <typename Make, typename Keep>
  void write(const Make& make, const Keep& keep) {
    if (file) file->append(print_line(make()));
    if (memory != nullptr) keep(*memory);
  }

  TraceOptions options;
  int rank;
  int world;
  std::optional<std::regex> match;
  std::optional<AppendFile> file;
  RankTrace* memory = nullptr;
};

TraceWriter::TraceWriter(TraceOptions options, int rank, int world) {
  SP_CHECK(0 <= rank && rank < world,
           "rank " + std::to_string(rank) + " of " + std::to_string(world));
  if (options.directory.empty() && !options.memory) return;
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
  impl_->write([&] { return line; },
               [&](RankTrace& trace) {
                 trace.ended.reset();
                 if (++trace.runs > 1) return;
                 trace.world = impl_->world;
                 trace.run = line;
               });
}

void TraceWriter::at(std::int64_t step, Phase phase) {
  if (!enabled()) return;
  impl_->write(
      [&] {
        return Json{{"kind", "at"}, {"step", step}, {"phase", name(phase)}};
      },
      [&](RankTrace& trace) {
        trace.last_at = {step, std::string(name(phase))};
      });
  const std::optional<TraceFault>& fault = impl_->options.fault;
  if (fault && fault->rank == impl_->rank && fault->step == step && fault->phase == phase) {
    fire(*fault);
  }
}

void TraceWriter::step(const StepRecord& record) {
  if (!enabled()) return;
  impl_->write([&] { return to_json(record); },
               [&](RankTrace& trace) { trace.steps.push_back(record); });
}

void TraceWriter::checkpoint(std::int64_t step, const std::string& path, bool done) {
  if (!enabled()) return;
  impl_->write(
      [&] {
        return Json{{"kind", "checkpoint"},
                    {"step", step},
                    {"path", path},
                    {"state", done ? "done" : "begun"}};
      },
      [&](RankTrace& trace) {
        trace.checkpoints.push_back({step, path, done});
      });
}

void TraceWriter::end(std::int64_t step) {
  if (!enabled()) return;
  impl_->write(
      [&] {
        return Json{{"kind", "end"}, {"step", step}};
      },
      [&](RankTrace& trace) { trace.ended = step; });
}

void TraceWriter::event(const Json& line) {
  if (!enabled()) return;
  SP_CHECK(line.is_object() && line.contains("kind"), "event without kind: " + print_line(line));
  impl_->write([&] { return line; }, [&](RankTrace& trace) { trace.others.push_back(line); });
}

void TraceWriter::tensors(std::int64_t step, const std::string& what,
                          std::span<const TensorView> views) {
  if (!wants_tensors(step)) return;
  std::vector<TensorView> matching;
  if (impl_->match) {
    std::copy_if(views.begin(), views.end(), std::back_inserter(matching), [&](const auto& view) {
      return std::regex_search(view.place.name, *impl_->match);
    });
  }
  const std::span<const TensorView> wanted = impl_->match ? matching : views;
  if (impl_->options.digest) {
    for (const TensorView& view : wanted) {
      const TensorRecord record = digest_tensor(step, what, view);
      impl_->write([&] { return to_json(record); },
                   [&](RankTrace& trace) { trace.tensors.push_back(record); });
    }
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
