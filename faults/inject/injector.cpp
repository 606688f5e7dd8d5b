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
bool matches(const FaultPoint& aim, const FaultPoint& at, int times) {
  if (times == 1) return aim == at;
  if (aim.kind != at.kind || aim.rank != at.rank || aim.moment != at.moment) return false;
  return aim.group == at.group && at.number >= aim.number && at.step >= aim.step &&
         aim.phase == at.phase;
}

}  // namespace

bool befalls_rank(FaultKind kind) {
  return in(kind, FaultKind::exit, FaultKind::delay);
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

std::uint64_t Injector::next_call(const std::string& group) {
  const std::scoped_lock lock(mutex_);
  return calls_[group]++;
}

std::uint64_t Injector::next_wire_call(const std::string& group) {
  const std::scoped_lock lock(mutex_);
  return wire_calls_[group]++;
}

std::uint64_t Injector::next_operation() {
  const std::scoped_lock lock(mutex_);
  return operations_++;
}

void Injector::discovered(PassedPoint point) const {
  const std::scoped_lock lock(mutex_);
  parts_.passed(point);
}

std::vector<Fault> Injector::due(const FaultPoint& point, bool (*wanted)(FaultKind),
                                 bool with_rank) {
  std::vector<Fault> out;
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < parts_.faults.size(); ++i) {
    const Fault& fault = parts_.faults[i];
    if (!wanted(fault.kind) && !(with_rank && befalls_rank(fault.kind))) continue;
    if (fault.times != 0 && fired_[i] >= fault.times) continue;
    if (!matches(fault.point, point, fault.times)) continue;
    ++fired_[i];
    if (parts_.fired) parts_.fired(fault);
    out.push_back(fault);
  }
  return out;
}

std::vector<Fault> Injector::pass(const FaultPoint& point, bool (*wanted)(FaultKind)) {
  std::vector<Fault> out = due(point, wanted, true);
  for (const Fault& fault : out) {
    if (befalls_rank(fault.kind)) happen(fault);
  }
  std::erase_if(out, [](const Fault& fault) { return befalls_rank(fault.kind); });
  return out;
}

std::vector<Fault> Injector::pass_alone(const FaultPoint& point, bool (*wanted)(FaultKind)) {
  return due(point, wanted, false);
}

bool Injector::expects(const FaultPoint& point, bool (*wanted)(FaultKind)) const {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < parts_.faults.size(); ++i) {
    const Fault& fault = parts_.faults[i];
    if (!wanted(fault.kind) && !befalls_rank(fault.kind)) continue;
    if (fault.times != 0 && fired_[i] >= fault.times) continue;
    if (matches(fault.point, point, fault.times)) return true;
  }
  return false;
}

void Injector::happen(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::stop:
      parts_.powers->stand_still(fault.point);
      return;
    case FaultKind::delay:
      parts_.powers->sleep(
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(fault.argument)));
      return;
    case FaultKind::exception:
      throw std::runtime_error(fmt::format("injected exception at {}", fault.point.text()));
    default:
      parts_.powers->end(fault.kind, fault.point);
      SP_CHECK(false, "a rank that ended goes on");
  }
}

}  // namespace shardproof
