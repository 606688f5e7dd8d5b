// rank_faults: the injector of a rank, put in at its places.
#include "harness/rank_faults.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "faults/inject/faulty_communicator.h"
#include "faults/inject/faulty_storage.h"
#include "harness/state_fault.h"
#include "harness/wall_clock.h"
#include "mesh/layout.h"
#include "trace/append_file.h"
#include "train/sections.h"

namespace shardproof {
namespace {

class ThreadPowers : public RankPowers {
 public:
  ThreadPowers(std::function<void()> die, StandStill& still)
      : die_(std::move(die)), still_(still) {}
  void end(FaultKind, const FaultPoint& at) override {
    die_();
    throw SimulatedDeath(at);
  }
  void stand_still(const FaultPoint& at) override {
    if (still_.wait()) throw SimulatedDeath(at);  // whoever waited for it has given up
    throw Error(ErrorKind::timeout, at.text(),
                fmt::format("rank {} stands still, and all other ranks have ended", at.rank),
                at.rank);
  }
  void sleep(Duration duration) override { Clock::real().sleep_for(duration); }
  // Until the rank ends: the process goes on, and other runs in it.
  void jump_clock(Duration by) override {
    move_wall_clock(by);
    jumped_ += by.count();
  }
  ~ThreadPowers() override { move_wall_clock(-Duration(jumped_.load())); }

 private:
  std::function<void()> die_;
  StandStill& still_;
  std::atomic<Duration::rep> jumped_{0};
};

class ProcessPowers : public RankPowers {
 public:
  void end(FaultKind kind, const FaultPoint&) override {
    if (kind == FaultKind::kill) ::raise(SIGKILL);
    constexpr int exit_of_the_fault = 7;
    ::_exit(exit_of_the_fault);
  }
  void stand_still(const FaultPoint&) override { ::raise(SIGSTOP); }
  void sleep(Duration duration) override { Clock::real().sleep_for(duration); }
  void jump_clock(Duration by) override { move_wall_clock(by); }
};

class FaultHooks : public Hooks {
 public:
  FaultHooks(Hooks& next, std::shared_ptr<Injector> injector, bool other_parameters)
      : next_(next), injector_(std::move(injector)), other_parameters_(other_parameters) {}

  void begin(Plan& plan) override {
    next_.begin(plan);
    if (other_parameters_) change_state(plan, FaultKind::flip_parameter, first_bit_of_exponent, 0);
  }
  void entering(std::int64_t step, Phase phase) override { next_.entering(step, phase); }
  void phase(std::int64_t step, Phase phase, Plan& plan) override {
    next_.phase(step, phase, plan);
    const FaultPoint at = point(step, phase);
    if (injector_->discovers()) injector_->discovered({at, "state", state_kinds(phase)});
    factor_ = 1;
    for (const Fault& fault : injector_->pass({at}, changes_state)) {
      if (fault.kind == FaultKind::learning_rate) {
        factor_ *= fault.argument;
      } else {
        change_state(plan, fault.kind, static_cast<int>(fault.argument), step);
      }
    }
  }
  double learning_rate(std::int64_t step, double rate) override {
    return next_.learning_rate(step, rate) * factor_;
  }

 private:
  static constexpr int first_bit_of_exponent = 23;

  FaultPoint point(std::int64_t step, Phase phase) const {
    FaultPoint out;
    out.rank = injector_->rank();
    out.step = step;
    out.phase = phase;
    return out;
  }

  Hooks& next_;
  std::shared_ptr<Injector> injector_;
  const bool other_parameters_;
  double factor_ = 1;
};

std::function<void(const Fault&)> teller(const RunRequest& request, int rank) {
  if (request.faults) {
    return [board = request.faults](const Fault& fault) { board->fired(fault); };
  }
  const std::string text = fmt::format("shardproof: rank {}: fault fires: ", rank);
  if (request.trace.directory.empty()) {
    return [text](const Fault& fault) { std::fputs((text + fault.text() + "\n").c_str(), stderr); };
  }
  auto file = std::make_shared<AppendFile>(
      fmt::format("{}/faults.rank_{:05}.jsonl", request.trace.directory, rank));
  return [file](const Fault& fault) {
    file->append(Json{{"kind", "fault"}, {"fault", fault.text()}}.dump());
  };
}

bool any(FaultKind) {
  return true;
}

}  // namespace

struct RankFaults::Groups : RankGroups {};

bool StandStill::wait() {
  std::unique_lock lock(mutex_);
  ++standing_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return released_ || standing_ + ended_ >= ranks_; });
  return released_;
}

void StandStill::ended() {
  const std::scoped_lock lock(mutex_);
  ++ended_;
  changed_.notify_all();
}

void StandStill::release() {
  const std::scoped_lock lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

std::shared_ptr<RankPowers> thread_powers(std::function<void()> die, StandStill& still) {
  return std::make_shared<ThreadPowers>(std::move(die), still);
}

std::shared_ptr<RankPowers> process_powers() {
  return std::make_shared<ProcessPowers>();
}

RankFaults::RankFaults(const RunRequest& request, int rank, std::shared_ptr<RankPowers> powers)
    : groups_(std::make_shared<Groups>()) {
  InjectorParts parts;
  parts.faults = request.faults ? request.faults->faults() : injected_faults(request.config);
  parts.rank = rank;
  parts.powers = std::move(powers);
  parts.fired = teller(request, rank);
  if (request.faults && request.faults->discovers()) {
    parts.passed = [board = request.faults](const PassedPoint& point) { board->passed(point); };
  }
  injector_ = std::make_shared<Injector>(std::move(parts));
}

RunRequest RankFaults::started(RunRequest request) {
  FaultPoint at;
  at.kind = PointKind::start;
  at.rank = injector_->rank();
  if (injector_->discovers()) {
    injector_->discovered({at,
                           "start",
                           {FaultKind::other_parameters, FaultKind::other_config,
                            FaultKind::other_data, FaultKind::other_world}});
  }
  for (const Fault& fault : injector_->pass({at}, any)) {
    Config& config = request.config;
    if (fault.kind == FaultKind::other_parameters) other_parameters_ = true;
    if (fault.kind == FaultKind::other_config) config.optimizer.lr *= 2;
    if (fault.kind == FaultKind::other_data) {
      Config other = config;
      ++other.training.seed;
      request.dataset =
          open_dataset(dataset_of(other), other.model.sequence, other.model.vocabulary,
                       static_cast<std::uint64_t>(other.training.seed));
    }
    if (fault.kind == FaultKind::other_world) config.run.layout += ".zero2";
  }
  return request;
}

std::unique_ptr<Communicator> RankFaults::outer(std::unique_ptr<Communicator> comm) const {
  return std::make_unique<FaultyCommunicator>(std::move(comm), injector_, groups_);
}

std::unique_ptr<Communicator> RankFaults::wire(std::unique_ptr<Communicator> comm) const {
  return std::make_unique<FaultyWire>(std::move(comm), injector_);
}

std::shared_ptr<Storage> RankFaults::storage(std::shared_ptr<Storage> inner) const {
  return std::make_shared<FaultyStorage>(std::move(inner), injector_);
}

std::unique_ptr<Hooks> RankFaults::hooks(Hooks& next) const {
  return std::make_unique<FaultHooks>(next, injector_, other_parameters_);
}

bool is_injected(const std::string& fault) {
  return fault.find('!') != fault.npos;
}

std::vector<Fault> injected_faults(const Config& config) {
  if (!is_injected(config.run.fault)) return {};
  return parse_faults(config.run.fault, "run.fault");
}

void check_injected_faults(const Config& config) {
  const int world = parse_layout(config.run.layout).world() + config.run.spares;
  for (const Fault& fault : injected_faults(config)) {
    if (fault.point.rank < world) continue;
    throw Error(ErrorKind::bad_input, "run.fault",
                fmt::format("{}: found rank {}; expected one of {} ranks, from 0", fault.text(),
                            fault.point.rank, world));
  }
}

std::unique_ptr<RankFaults> rank_faults(const RunRequest& request, int rank,
                                        std::shared_ptr<RankPowers> powers) {
  if (!request.faults && injected_faults(request.config).empty()) return nullptr;
  return std::make_unique<RankFaults>(request, rank, std::move(powers));
}

}  // namespace shardproof
