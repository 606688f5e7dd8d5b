// supervisor: attempts, what ended them, and what the next one begins with.
#include "harness/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/set_aside.h"
#include "harness/newest_whole.h"
#include "harness/rank_faults.h"
#include "harness/request_file.h"
#include "harness/smaller_layout.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr double longest_wait = 3600;  // of a back-off, in seconds
constexpr Duration look_for_stop = std::chrono::milliseconds(20);

double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// An attempt that has failed.
struct Attempt {
  std::string layout;
  std::string from;  // id of a checkpoint; empty: the beginning
  std::int64_t steps = 0;
  double seconds = 0;
  Error error;

  bool died() const { return error.kind() == ErrorKind::peer_died && error.world_rank() >= 0; }
  std::string text() const {
    return fmt::format("on {} from {}, {} steps in {:.1f} s: {}", layout,
                       from.empty() ? "the beginning" : from, steps, seconds, error.what());
  }
  Json to_json() const {
    return {{"layout", layout},
            {"from", from},
            {"steps", steps},
            {"seconds", seconds},
            {"error_kind", std::string(name(error.kind()))},
            {"error", error.what()},
            {"rank", error.world_rank()}};
  }
};

std::string failure_line(const Failure& failure) {
  if (failure.kind == Failure::Kind::hang) return error_from_text(failure.text).what();
  return fmt::format("rank {} {} ({})", failure.rank, failure.text,
                     failure.place.empty() ? "before the first step" : failure.place);
}

class Supervisor {
 public:
  Supervisor(const RunRequest& request, const Supervision& supervision)
      : given_(request),
        supervision_(supervision),
        clock_(supervision.clock),
        deadline_(Deadline::after(request.launch_deadline, clock_)),
        layout_(request.config.run.layout),
        from_(request.resume.value_or("")) {}

  bool run();
  bool run_once_alone();

 private:
  RunRequest next_request();
  void give_faults(RunRequest& request) const;
  std::optional<Error> attempt(const RunRequest& request);
  std::optional<Error> attempt_on_processes(const RunRequest& request);
  void stepped(const StepResult& result, const StepMetrics& metrics);
  void recovered(std::int64_t step, double step_seconds);
  void require_another(const Attempt& failed);
  bool is_runs_own(const Attempt& failed) const;
  [[noreturn]] void give_up(const std::string& why);
  std::string layout_after(const Attempt& failed);
  std::string find_checkpoint(const Attempt& failed);
  void set_aside_bad_state(Storage& storage, const Attempt& failed);
  bool back_off();
  bool asked_to_stop() const { return given_.stop != nullptr && given_.stop->load(); }
  double since(Duration begin) const { return in_seconds(clock_.now() - begin); }
  void say(const std::string& line) const;
  void record(const char* kind, Json event) const;

  const RunRequest& given_;
  const Supervision& supervision_;
  Clock& clock_;
  const Deadline deadline_;
  std::vector<Attempt> history_;  // all failed
  std::string layout_;            // of the next attempt
  std::string from_;

  // Of the attempt under way.
  int number_ = 0;  // 0: the first
  Duration began_{};
  Duration ended_{};
  std::int64_t steps_ = 0;
  bool interrupted_ = false;
  std::vector<Recovery::Part> parts_;  // of the failure before it, then of its start
};

bool Supervisor::run() {
  for (number_ = 0;; ++number_) {
    const std::optional<Error> error = attempt(next_request());
    if (!error) {
      if (!interrupted_ && number_ > 0 && steps_ == 0) recovered(-1, 0);
      return !interrupted_;
    }
    history_.push_back({layout_, from_, steps_, in_seconds(ended_ - began_), *error});
    const Attempt& failed = history_.back();
    Json event = failed.to_json();
    event["number"] = number_;
    record("attempt", std::move(event));
    require_another(failed);
    say(fmt::format("attempt {} {}", number_ + 1, failed.text()));
    layout_ = layout_after(failed);
    from_ = find_checkpoint(failed);
    if (!back_off()) return false;
  }
}

bool Supervisor::run_once_alone() {
  RunRequest request = given_;
  request.on_failure = [&](const Failure& failure) {
    if (failure.kind != Failure::Kind::failed) say(failure_line(failure));
  };
  return shardproof::run(request);
}

RunRequest Supervisor::next_request() {
  RunRequest request = given_;
  request.config.run.layout = layout_;
  give_faults(request);
  if (number_ > 0) {
    for (std::string* path :
         {&request.trace.directory, &request.metrics_directory, &request.metrics_file}) {
      *path = path_of_restart(*path, number_);
    }
    if (!from_.empty()) {
      request.resume = from_;
      request.fallback = true;  // the damaged ones behind it are in the way of its saves
      request.new_case_from.clear();
    }
  }
  request.launch_deadline = deadline_.left();
  request.on_step = [this](const StepResult& result, const StepMetrics& metrics) {
    stepped(result, metrics);
  };
  request.on_part = [this](const std::string& part, double seconds) {
    parts_.push_back({part, seconds});
  };
  request.on_failure = [this](const Failure& failure) {
    if (failure.kind != Failure::Kind::failed) say(failure_line(failure));
  };
  return request;
}

void Supervisor::give_faults(RunRequest& request) const {
  std::vector<Fault> mine;
  for (Fault fault : injected_faults(given_.config)) {
    if (fault.run != number_) continue;
    fault.run = 0;
    mine.push_back(fault);
  }
  if (is_injected(given_.config.run.fault)) {
    request.config.run.fault = mine.empty() ? "" : text(mine);
  } else if (number_ > 0) {
    request.config.run.fault.clear();
  }
  if (number_ > 0) request.trace.fault.reset();
}

std::optional<Error> Supervisor::attempt(const RunRequest& request) {
  steps_ = 0;
  began_ = clock_.now();
  std::optional<Error> error;
  try {
    if (request.config.run.backend == "mpi") {
      error = attempt_on_processes(request);
    } else {
      run_on_threads(request);
      interrupted_ = asked_to_stop();
    }
  } catch (const Error& failed) {
    error = failed;
    parts_ = {{"notice", 0}, {"end", 0}};  // of threads both are one with the failure
  }
  ended_ = clock_.now();
  return error;
}

std::optional<Error> Supervisor::attempt_on_processes(const RunRequest& request) {
  const LaunchResult result = launch_run(request);
  interrupted_ = result.interrupted;
  if (interrupted_ || result.ok()) return std::nullopt;
  Failure unknown;
  unknown.seconds = result.seconds;
  const Failure known = result.first_failure.value_or(unknown);
  parts_ = {{"notice", known.silent_seconds},
            {"end", std::max(0.0, since(began_) - known.seconds)}};
  return failure_of(result);
}

void Supervisor::stepped(const StepResult& result, const StepMetrics& metrics) {
  ++steps_;
  if (given_.on_step) given_.on_step(result, metrics);
  if (number_ > 0 && steps_ == 1) recovered(result.step, metrics.seconds);
}

// What of the time since the attempt began is none of the known parts is its start.
void Supervisor::recovered(std::int64_t step, double step_seconds) {
  Recovery recovery{"restart", number_, from_, layout_, step, {}};
  double start = since(began_) - step_seconds, data = 0, load = 0;
  for (const Recovery::Part& part : parts_) {
    if (part.name == "data") data += part.seconds;
    if (part.name == "load") load += part.seconds;
    if (part.name != "data" && part.name != "load") recovery.parts.push_back(part);
  }
  start = std::max(0.0, start - data - load);
  for (const Recovery::Part& part : std::initializer_list<Recovery::Part>{
           {"start", start}, {"data", data}, {"load", load}, {"step", step_seconds}}) {
    recovery.parts.push_back(part);
  }
  say(text(recovery));
  record("recovery", to_json(recovery));
  if (supervision_.recovered) supervision_.recovered(recovery);
}

void Supervisor::require_another(const Attempt& failed) {
  const ErrorKind kind = failed.error.kind();
  const bool chosen = number_ == 0 && failed.steps == 0 && kind == ErrorKind::corrupt;
  if (is_runs_own(failed)) give_up("the same again: it is the run's own");
  if (chosen || kind == ErrorKind::bad_input || kind == ErrorKind::environment ||
      kind == ErrorKind::refused || kind == ErrorKind::conflict) {
    give_up(fmt::format("not tried again after {} restarts", number_));
  }
  if (number_ >= given_.config.run.restarts) {
    give_up(fmt::format("given up after {} restarts (run.restarts)", number_));
  }
  if (asked_to_stop()) give_up("asked to stop");
}

// Bits repeat: a number that went wrong on the way from a checkpoint, and again at the same place,
// is no fault of a machine.
bool Supervisor::is_runs_own(const Attempt& failed) const {
  const bool state_is_bad = failed.steps == 0 && !failed.from.empty();
  if (failed.error.kind() != ErrorKind::numeric || state_is_bad) return false;
  return std::any_of(history_.begin(), history_.end() - 1, [&](const Attempt& other) {
    return other.error.kind() == ErrorKind::numeric && other.error.place() == failed.error.place();
  });
}

void Supervisor::give_up(const std::string& why) {
  const Error& last = history_.back().error;
  std::vector<std::string> texts;
  Json attempts = Json::array();
  for (const Attempt& each : history_) {
    texts.push_back(fmt::format("attempt {} {}", texts.size() + 1, each.text()));
    attempts.push_back(each.to_json());
  }
  record("gave_up", {{"why", why}, {"attempts", std::move(attempts)}});
  if (history_.size() == 1 && given_.config.run.restarts > 0) throw last;
  throw Error(last.kind(), last.place(),
              fmt::format("{}; {}: {}", last.detail(), why, fmt::join(texts, "; ")),
              last.world_rank());
}

std::string Supervisor::layout_after(const Attempt& failed) {
  if (!failed.died()) return layout_;
  bool gone = given_.config.run.elastic;
  if (history_.size() >= 2 && failed.steps == 0) {
    const Attempt& before = history_[history_.size() - 2];
    gone = gone || (before.died() && before.layout == failed.layout &&
                    before.error.world_rank() == failed.error.world_rank());
  }
  if (!gone) return layout_;
  Config config = given_.config;
  config.run.layout = layout_;
  const auto smaller = smaller_layout(config, parse_layout(layout_).world() - 1);
  const std::string rank = fmt::format("rank {} is taken for gone", failed.error.world_rank());
  say(smaller ? fmt::format("{}: {} in place of {}", rank, smaller->print(), layout_)
              : fmt::format("{}, and no legal layout has fewer ranks: {} again", rank, layout_));
  return smaller ? smaller->print() : layout_;
}

// A whole checkpoint may hold a state that had gone wrong before it was saved.
void Supervisor::set_aside_bad_state(Storage& storage, const Attempt& failed) {
  const bool began_wrong = failed.error.kind() == ErrorKind::numeric && failed.steps == 0;
  if (!began_wrong || number_ == 0 || failed.from.empty()) return;
  set_aside_from(storage, read_manifest(storage, failed.from).facts.step);
  say(fmt::format("checkpoint {} was set aside: no step can be done from it", failed.from));
}

std::string Supervisor::find_checkpoint(const Attempt& failed) {
  const Duration began = clock_.now();
  std::string id;
  const std::string& directory = given_.config.checkpoint.directory;
  std::error_code ignored;
  std::shared_ptr<Storage> storage = given_.storage;
  if (!storage && !directory.empty() && std::filesystem::is_directory(directory, ignored)) {
    storage = posix_storage(directory, false);
  }
  if (storage) {
    set_aside_bad_state(*storage, failed);
    id = newest_whole(
        *storage,
        [&](const std::string& damaged, const Damage& damage) { say(text(damaged, damage)); },
        given_.config.training.steps);
  }
  parts_.push_back({"find", since(began)});
  const bool resumed = given_.resume && given_.new_case_from.empty();
  if (id.empty() && resumed) give_up("no checkpoint is whole any more");
  return id;
}

// False: asked to stop meanwhile.
bool Supervisor::back_off() {
  const double doubled = std::ldexp(given_.config.run.restart_seconds, std::min(number_, 30));
  const double left =
      std::max(0.0, std::min(doubled, longest_wait) - in_seconds(clock_.now() - ended_));
  const auto wait = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left));
  if (deadline_.left() <= wait) give_up("no time is left before the deadline of the run");
  say(fmt::format("restart {} of {} on {} from {}{}", number_ + 1, given_.config.run.restarts,
                  layout_, from_.empty() ? "the beginning (there is no whole checkpoint)" : from_,
                  left > 0 ? fmt::format(", in {:.1f} s", left) : ""));
  const Duration began = clock_.now();
  const Deadline end = Deadline::after(wait, clock_);
  while (!end.expired() && !asked_to_stop()) clock_.sleep_for(std::min(look_for_stop, end.left()));
  parts_.push_back({"wait", since(began)});
  return !asked_to_stop();
}

void Supervisor::say(const std::string& line) const {
  if (supervision_.say) return supervision_.say(line);
  fmt::print(stderr, "shardproof: {}\n", line);
}

void Supervisor::record(const char* kind, Json event) const {
  if (given_.trace.directory.empty()) return;
  event["kind"] = kind;
  append_harness_event(given_.trace.directory, event);
}

void check_faults(const RunRequest& request) {
  if (request.faults) {
    throw Error(ErrorKind::bad_input, "run.restarts",
                "a board holds the faults of one run; expected run.fault");
  }
  for (const Fault& fault : injected_faults(request.config)) {
    if (fault.run <= request.config.run.restarts) continue;
    throw Error(ErrorKind::bad_input, "run.fault",
                fmt::format("{}: belongs to restart {}; expected at most run.restarts, {}",
                            fault.text(), fault.run, request.config.run.restarts));
  }
}

}  // namespace

bool supervise(const RunRequest& request, const Supervision& supervision) {
  Supervisor supervisor(request, supervision);
  if (request.config.run.restarts == 0) return supervisor.run_once_alone();
  check_faults(request);
  return supervisor.run();
}

std::string path_of_restart(const std::string& path, int number) {
  return path.empty() ? "" : fmt::format("{}.restart_{}", path, number);
}

void refuse_restarts(const Config& config, const std::string& what) {
  if (config.run.restarts == 0) return;
  throw Error(
      ErrorKind::bad_input, "run.restarts",
      fmt::format("found {}: {} does not restart; expected 0, or the verbs train and resume",
                  config.run.restarts, what));
}

}  // namespace shardproof
