// injector: which faults are due, and those that befall the whole rank.
#include "faults/inject/injector.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/check.h"

namespace shardproof {
namespace {

bool in(FaultKind kind, FaultKind first, FaultKind last) {
  return kind >= first && kind <= last;
}

// Whether a fault aimed at `aim` may fire at `at`: there, or later when it fires more than once.
bool matches(const FaultPoint& aim, const Passing& passing, int times) {
  const FaultPoint& at = passing.point;
  if (aim.kind != at.kind || aim.rank != at.rank || aim.moment != at.moment) return false;
  if (aim.group != at.group || aim.phase != at.phase) return false;
  const bool named = !aim.operation.empty();
  if (named && aim.operation != passing.operation) return false;
  const std::uint64_t number = named ? passing.nth : at.number;
  if (times == 1) return number == aim.number && at.step == aim.step;
  return number >= aim.number && at.step >= aim.step;
}

}  // namespace

bool befalls_rank(FaultKind kind) {
  return in(kind, FaultKind::exit, FaultKind::clock_jump);
}
bool is_wrong_call(FaultKind kind) {
  return in(kind, FaultKind::dtype, FaultKind::extra);
}
bool is_on_wire(FaultKind kind) {
  return in(kind, FaultKind::flip_send, FaultKind::flip_recv);
}
bool changes_state(FaultKind kind) {
  return in(kind, FaultKind::flip_parameter, FaultKind::learning_rate);
}
bool fails_operation(FaultKind kind) {
  return in(kind, FaultKind::disk_full, FaultKind::io_error);
}
bool damages_shard(FaultKind kind) {
  return in(kind, FaultKind::corrupt_shard, FaultKind::missing_shard);
}
bool changes_start(FaultKind kind) {
  return in(kind, FaultKind::other_parameters, FaultKind::other_tokenizer);
}

Injector::Injector(InjectorParts parts) : parts_(std::move(parts)), fired_(parts_.faults.size()) {
  SP_CHECK(parts_.powers != nullptr, "an injector needs the powers of its rank");
}

Passing at_moment(Passing passing, Moment moment) {
  passing.point.moment = moment;
  return passing;
}

Passing Injector::next_call(const std::string& group, const std::string& operation) {
  const std::scoped_lock lock(mutex_);
  Passing out{{PointKind::call, parts_.rank, group}, operation, 0};
  out.point.number = counters_["call " + group]++;
  out.nth = counters_["call " + group + " " + operation]++;
  return out;
}

Passing Injector::next_wire_call(const std::string& group, const std::string& operation) {
  const std::scoped_lock lock(mutex_);
  Passing out{{PointKind::call, parts_.rank, group}, operation, 0};
  out.point.number = counters_["wire " + group]++;
  out.nth = counters_["wire " + group + " " + operation]++;
  return out;
}

Passing Injector::next_operation(const std::string& operation) {
  const std::scoped_lock lock(mutex_);
  Passing out{{PointKind::file, parts_.rank}, operation, 0};
  out.point.number = counters_["file"]++;
  out.nth = counters_["file " + operation]++;
  return out;
}

void Injector::discovered(PassedPoint point) const {
  const std::scoped_lock lock(mutex_);
  parts_.passed(point);
}

std::vector<Fault> Injector::due(const Passing& passing, bool (*wanted)(FaultKind),
                                 bool with_rank) {
  std::vector<Fault> out;
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < parts_.faults.size(); ++i) {
    const Fault& fault = parts_.faults[i];
    if (!wanted(fault.kind) && !(with_rank && befalls_rank(fault.kind))) continue;
    if (fault.times != 0 && fired_[i] >= fault.times) continue;
    if (!matches(fault.point, passing, fault.times)) continue;
    ++fired_[i];
    if (parts_.fired) parts_.fired(fault);
    out.push_back(fault);
  }
  return out;
}

std::vector<Fault> Injector::pass(const Passing& passing, bool (*wanted)(FaultKind)) {
  end_again();
  std::vector<Fault> out = due(passing, wanted, true);
  for (const Fault& fault : out) {
    if (befalls_rank(fault.kind)) happen(fault);
  }
  std::erase_if(out, [](const Fault& fault) { return befalls_rank(fault.kind); });
  return out;
}

std::vector<Fault> Injector::pass_alone(const Passing& passing, bool (*wanted)(FaultKind)) {
  return due(passing, wanted, false);
}

bool Injector::expects(const Passing& passing, bool (*wanted)(FaultKind)) const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < parts_.faults.size(); ++i) {
    const Fault& fault = parts_.faults[i];
    if (!wanted(fault.kind) && !befalls_rank(fault.kind)) continue;
    if (fault.times != 0 && fired_[i] >= fault.times) continue;
    if (matches(fault.point, passing, fault.times)) return true;
  }
  return false;
}

void Injector::end_again() {
  std::optional<FaultPoint> at;
  {
    const std::scoped_lock lock(mutex_);
    at = ended_;
  }
  if (at) parts_.powers->end(FaultKind::kill, *at);
}

void Injector::happen(const Fault& fault) {
  const auto end = [&] {
    const std::scoped_lock lock(mutex_);
    ended_ = fault.point;
  };
  switch (fault.kind) {
    case FaultKind::stop:
      try {
        parts_.powers->stand_still(fault.point);  // a process may be continued, a thread ends
      } catch (...) {
        end();
        throw;
      }
      return;
    case FaultKind::delay:
      parts_.powers->sleep(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(fault.argument)));
      return;
    case FaultKind::clock_jump:
      parts_.powers->jump_clock(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(fault.argument)));
      return;
    case FaultKind::exception:
      throw std::runtime_error(fmt::format("injected exception at {}", fault.point.text()));
    default:
      end();
      parts_.powers->end(fault.kind, fault.point);
      SP_CHECK(false, "a rank that ended goes on");
  }
}

}  // namespace shardproof
