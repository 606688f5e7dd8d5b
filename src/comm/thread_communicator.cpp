// thread_communicator: one rank's handle on a ThreadGroup, and the world that makes the handles.
#include "comm/thread_communicator.h"

#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "comm/comm_thread.h"
#include "comm/thread_agreement.h"
#include "comm/thread_collectives.h"
#include "comm/thread_group.h"
#include "comm/thread_messages.h"

namespace shardproof {

namespace {

using internal::ThreadCollective;
using internal::ThreadGroup;

bool is_message(const Call& call) {
  return call.kind == CallKind::send || call.kind == CallKind::recv;
}

// Adds the time of a scope to a rank's account.
class Stopwatch {
 public:
  explicit Stopwatch(internal::RankSlot& slot) : slot_(slot) {}
  ~Stopwatch() {
    slot_.time_in_calls.fetch_add((Clock::real().now() - start_).count(),
                                  std::memory_order_relaxed);
  }

 private:
  internal::RankSlot& slot_;
  const Duration start_ = Clock::real().now();
};

class CollectiveWork : public Work {
 public:
  CollectiveWork(std::shared_ptr<ThreadGroup> group, int rank, std::shared_ptr<AsyncCall> call,
                 std::string place)
      : group_(std::move(group)), rank_(rank), call_(std::move(call)), place_(std::move(place)) {}
  ~CollectiveWork() override { call_->wait(Deadline::never()); }  // the call has its own deadline

  void wait(Deadline deadline) override {
    if (!call_->wait(deadline)) {
      if (!group_->broken()) group_->mark(ThreadGroup::poisoned);
      group_->notify();
      call_->wait(Deadline::never());  // short: the group is broken
      group_->throw_broken(rank_, place_, ErrorKind::timeout, "an asynchronous call did not end");
    }
    call_->rethrow();
  }
  bool done() const override { return call_->done(); }

 private:
  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  std::shared_ptr<AsyncCall> call_;
  const std::string place_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank), messages_(group_, rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  const Group& group() const override { return group_->group; }
  Duration timeout() const override { return group_->registry->timeout; }
  bool poisoned() const override { return group_->broken(); }
  std::vector<int> failed_ranks() const override { return group_->failed_ranks(); }
  void revoke() override { group_->registry->revoke(group_.get()); }

  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                      Deadline deadline) override;
  void abort() override;
  std::uint64_t agree(std::uint64_t flags, Deadline deadline) override;
  std::unique_ptr<Communicator> shrink(const std::string& label, Deadline deadline) override;
  Traffic traffic() const override;

 private:
  void after_started_calls(const Deadline& deadline);
  std::unique_ptr<Communicator> child(const internal::Decision& decision) const;

  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  std::uint64_t collectives_ = 0;  // issued; used by whichever thread carries them out, in order
  std::uint64_t splits_ = 0, agreements_ = 0, shrinks_ = 0;
  internal::ThreadMessages messages_;
  CommThread collective_thread_;  // last: ends first, its tasks use the members above
};

void ThreadCommunicator::after_started_calls(const Deadline& deadline) {
  if (collective_thread_.wait_idle(deadline)) return;
  group_->fail(rank_, group_->group.name, ErrorKind::timeout,
               "waited for asynchronous calls started before");
}

void ThreadCommunicator::run(const Call& call, Deadline deadline) {
  validate(call, rank_, size());
  internal::RankSlot& slot = group_->slot(rank_);
  slot.calls.fetch_add(1, std::memory_order_relaxed);
  const Stopwatch stopwatch(slot);
  if (is_message(call)) return messages_.run(call, deadline);
  after_started_calls(deadline);
  ThreadCollective(*group_, rank_, ++collectives_, call, deadline).run();
}

std::unique_ptr<Work> ThreadCommunicator::start(const Call& call, Keep keep) {
  validate(call, rank_, size());
  group_->slot(rank_).calls.fetch_add(1, std::memory_order_relaxed);
  if (is_message(call)) return messages_.start(call, std::move(keep));
  const std::uint64_t number = ++collectives_;
  auto under_way = std::make_shared<AsyncCall>(std::move(keep));
  collective_thread_.post([group = group_, rank = rank_, number, call, under_way] {
    std::optional<Error> failure;
    try {
      const Stopwatch stopwatch(group->slot(rank));
      ThreadCollective(*group, rank, number, call, Deadline::after(group->registry->timeout)).run();
    } catch (const Error& error) {
      failure = error;
    }
    under_way->complete(std::move(failure));
  });
  return std::make_unique<CollectiveWork>(
      group_, rank_, under_way, ThreadCollective(*group_, rank_, number, call, {}).place());
}

std::unique_ptr<Communicator> ThreadCommunicator::child(const internal::Decision& decision) const {
  if (decision.child == nullptr) return nullptr;
  return std::make_unique<ThreadCommunicator>(decision.child, decision.child_rank);
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key,
                                                        const std::string& label,
                                                        Deadline deadline) {
  after_started_calls(deadline);
  return child(internal::split(*group_, rank_, splits_++, {0, color, key, label}, deadline));
}

std::uint64_t ThreadCommunicator::agree(std::uint64_t flags, Deadline deadline) {
  return internal::agree(*group_, rank_, agreements_++, flags, deadline).flags;
}

std::unique_ptr<Communicator> ThreadCommunicator::shrink(const std::string& label,
                                                         Deadline deadline) {
  return child(internal::shrink(*group_, rank_, shrinks_++, label, deadline));
}

void ThreadCommunicator::abort() {
  if (!group_->broken()) group_->mark(ThreadGroup::poisoned);
  group_->notify();
  collective_thread_.wait_idle(Deadline::never());  // short: the group is broken
  messages_.stop();
  group_->wait_until_untouched(rank_);
}

Traffic ThreadCommunicator::traffic() const {
  const internal::RankSlot& slot = group_->slot(rank_);
  Traffic traffic;
  traffic.calls = slot.calls.load();
  traffic.bytes_sent = slot.bytes_sent.load();
  traffic.time_in_calls = Duration(slot.time_in_calls.load());
  return traffic;
}

}  // namespace

struct ThreadWorld::State {
  std::shared_ptr<internal::ThreadRegistry> registry;
  std::shared_ptr<ThreadGroup> group;
};

ThreadWorld::ThreadWorld(int size, Duration timeout) : state_(std::make_shared<State>()) {
  SP_CHECK_LT(0, size);
  Group world{"world", std::vector<int>(static_cast<std::size_t>(size))};
  std::iota(world.world_ranks.begin(), world.world_ranks.end(), 0);
  state_->registry = std::make_shared<internal::ThreadRegistry>(size, timeout);
  state_->group = std::make_shared<ThreadGroup>(state_->registry, nullptr, std::move(world));
  state_->registry->add(state_->group, nullptr);
}

ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const {
  return state_->group->size();
}

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  SP_CHECK_LE(0, rank);
  SP_CHECK_LT(rank, size());
  return std::make_unique<ThreadCommunicator>(state_->group, rank);
}

void ThreadWorld::kill(int rank) {
  SP_CHECK_LE(0, rank);
  SP_CHECK_LT(rank, size());
  state_->registry->kill(rank);
}

void ThreadWorld::revoke_all() {
  state_->registry->revoke(nullptr);
}

}  // namespace shardproof
