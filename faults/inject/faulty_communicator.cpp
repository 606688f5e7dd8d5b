// faulty_communicator: wrong calls above the guards.
#include "faults/inject/faulty_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "faults/inject/impossible_fault.h"
#include "faults/inject/wrong_call.h"

namespace shardproof {
namespace {

constexpr FaultKind call_kinds[] = {FaultKind::dtype, FaultKind::count,     FaultKind::split,
                                    FaultKind::op,    FaultKind::root,      FaultKind::tag,
                                    FaultKind::group, FaultKind::order,     FaultKind::skip,
                                    FaultKind::extra, FaultKind::flip_send, FaultKind::flip_recv};

class NoWork : public Work {
 public:
  void wait(Deadline) override {}
  bool done() const override { return true; }
};

// Keeps scratch memory alive with the operation that uses it; fires what is due behind it.
class FaultyWork : public Work {
 public:
  FaultyWork(std::unique_ptr<Work> inner, std::shared_ptr<Injector> injector, Passing after)
      : inner_(std::move(inner)), injector_(std::move(injector)), after_(std::move(after)) {}
  void wait(Deadline deadline) override {
    inner_->wait(deadline);
    if (!std::exchange(waited_, true)) injector_->pass(after_, is_wrong_call);
  }
  bool done() const override { return inner_->done(); }

 private:
  std::unique_ptr<Work> inner_;
  std::shared_ptr<Injector> injector_;
  const Passing after_;
  bool waited_ = false;
};

std::string description(const Call& call, int rank) {
  const std::size_t elements = std::max(call.send_elements(rank), call.recv_elements(rank));
  return fmt::format("{} {} x {}", name(call.kind), name(call.dtype), elements);
}

}  // namespace

bool can_happen(FaultKind kind, const Call& call, int rank, int size) {
  switch (kind) {
    case FaultKind::flip_send:
      return size > 1 && call.send_elements(rank) > 0;
    case FaultKind::flip_recv:
      return size > 1 && call.recv_elements(rank) > 0;
    case FaultKind::skip:
    case FaultKind::extra:
    case FaultKind::group:
    case FaultKind::order:
      return size > 1;
    default:
      return size > 1 && wrong_call(kind, call, rank, size).has_value();
  }
}

FaultyCommunicator::FaultyCommunicator(std::unique_ptr<Communicator> inner_comm,
                                       std::shared_ptr<Injector> injector,
                                       std::shared_ptr<RankGroups> groups)
    : ForwardingCommunicator(std::move(inner_comm)),
      injector_(std::move(injector)),
      groups_(std::move(groups)) {
  const std::scoped_lock lock(groups_->mutex);
  groups_->inner[group().name] = &inner();
}

FaultyCommunicator::~FaultyCommunicator() {
  const std::scoped_lock lock(groups_->mutex);
  const auto found = groups_->inner.find(group().name);
  if (found != groups_->inner.end() && found->second == &inner()) groups_->inner.erase(found);
}

Passing FaultyCommunicator::begin(const Call& call, const char* how) {
  const Passing passing = injector_->next_call(group().name, std::string(name(call.kind)));
  if (injector_->discovers()) {
    PassedPoint passed{passing.point, how + description(call, rank()), {}};
    for (const FaultKind kind : call_kinds) {
      const bool elsewhere = kind != FaultKind::group || another_group() != nullptr;
      if (elsewhere && can_happen(kind, call, rank(), size())) passed.kinds.push_back(kind);
    }
    injector_->discovered(passed);
  }
  return passing;
}

Communicator* FaultyCommunicator::another_group() const {
  const std::scoped_lock lock(groups_->mutex);
  Communicator* other = nullptr;
  for (const auto& [name, comm] : groups_->inner) {
    if (name != group().name && comm->size() > 1) other = comm;
  }
  return other;
}

void FaultyCommunicator::call_elsewhere(const Call& call, Deadline deadline) {
  Communicator* const other = another_group();
  if (other == nullptr) {
    throw impossible_fault(group().name, "the rank has no other group of several ranks",
                           injector_->rank());
  }
  Call elsewhere;  // a barrier where the counts are of another size
  const bool fits =
      call.send_counts.empty() && call.recv_counts.empty() && call.peer < other->size();
  if (fits) elsewhere = call;
  const ScratchCall scratch = on_scratch(elsewhere, other->rank());
  other->run(scratch.call, deadline);
}

FaultyCommunicator::Changed FaultyCommunicator::changed(const Call& call,
                                                        const std::vector<Fault>& faults,
                                                        Deadline deadline) {
  Changed out{call, nullptr};
  for (const Fault& fault : faults) {
    switch (fault.kind) {
      case FaultKind::skip:
        return {};
      case FaultKind::group:
        call_elsewhere(call, deadline);
        return {};
      case FaultKind::extra:
        inner().run(on_scratch(call, rank()).call, deadline);
        break;
      case FaultKind::order: {
        Call other;  // a barrier, when the group has made one kind of call
        for (const Call& before : seen_) {
          if (!same_contract(before, call)) other = before;
        }
        inner().run(on_scratch(other, rank()).call, deadline);
        break;
      }
      default:
        const auto wrong = wrong_call(fault.kind, *out.call, rank(), size());
        if (!wrong) {
          throw impossible_fault(fault.text(),
                                 fmt::format("cannot be in {}", description(call, rank())),
                                 injector_->rank());
        }
        out.call = wrong;
    }
  }
  // Other counts lie elsewhere in a buffer that is sent from and received into: no such call is
  // legal in place.
  if (out.call && call.kind != CallKind::broadcast && out.call->send != nullptr) {
    const auto* const from = static_cast<const std::byte*>(out.call->send);
    const std::size_t bytes = out.call->send_elements(rank()) * size_of(out.call->dtype);
    auto copy = std::make_shared<std::vector<std::byte>>(from, from + bytes);
    copy->resize(bytes + 1);
    out.call->send = copy->data();
    out.copy = copy;
  }
  return out;
}

void FaultyCommunicator::run(const Call& call, Deadline deadline) {
  const Passing before = begin(call, ""), inside = at_moment(before, Moment::inside),
                after = at_moment(before, Moment::after);
  const auto faults = injector_->pass(before, is_wrong_call);
  const Changed now = faults.empty() ? Changed{call, nullptr} : changed(call, faults, deadline);
  const std::optional<Call>& actual = now.call;
  const auto same = [&](const Call& seen) { return same_contract(seen, call); };
  if (std::none_of(seen_.begin(), seen_.end(), same)) {
    seen_.push_back(call);
    seen_.back().send = seen_.back().recv = nullptr;
  }
  if (actual && injector_->expects(inside, is_wrong_call)) {
    const auto work = inner().start(*actual, nullptr);
    try {
      injector_->pass(inside, is_wrong_call);
    } catch (...) {
      inner().abort();  // nobody may touch the buffers of a rank that is gone
      throw;
    }
    work->wait(deadline);
  } else if (actual) {
    inner().run(*actual, deadline);
  }
  injector_->pass(after, is_wrong_call);
}

std::unique_ptr<Work> FaultyCommunicator::start(const Call& call, Keep keep) {
  const Passing before = begin(call, "start ");
  const auto faults = injector_->pass(before, is_wrong_call);
  const Changed now =
      faults.empty() ? Changed{call, nullptr} : changed(call, faults, Deadline::after(timeout()));
  if (!now.call) return std::make_unique<NoWork>();
  if (now.copy) keep = std::make_shared<std::pair<Keep, Keep>>(std::move(keep), now.copy);
  auto work = inner().start(*now.call, std::move(keep));
  try {
    injector_->pass(at_moment(before, Moment::inside), is_wrong_call);
  } catch (...) {
    inner().abort();
    throw;
  }
  return std::make_unique<FaultyWork>(std::move(work), injector_, at_moment(before, Moment::after));
}

std::unique_ptr<Communicator> FaultyCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<FaultyCommunicator>(std::move(child), injector_, groups_);
}

}  // namespace shardproof
