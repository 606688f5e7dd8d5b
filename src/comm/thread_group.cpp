// thread_group: breaking groups, naming failures, and the registry of all groups of a world.
#include "comm/thread_group.h"

#include <algorithm>
#include <utility>

namespace shardproof::internal {

namespace {

int polls_before_yield(int world_size) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return world_size <= cores ? 100 : 20;
}

bool is_or_descends_from(const ThreadGroup& group, const ThreadGroup& ancestor) {
  return group.id == ancestor.id || std::find(group.ancestors.begin(), group.ancestors.end(),
                                              ancestor.id) != group.ancestors.end();
}

}  // namespace

ThreadRegistry::ThreadRegistry(int world_size, Duration timeout)
    : timeout(timeout),
      spins(polls_before_yield(world_size)),
      dead_(static_cast<std::size_t>(world_size), false) {}

void ThreadRegistry::add(const std::shared_ptr<ThreadGroup>& group, const ThreadGroup* parent) {
  std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& known) { return known.expired(); });
  groups_.push_back(group);
  for (const int world_rank : group->group.world_ranks) {
    if (dead_[static_cast<std::size_t>(world_rank)]) group->mark_dead(world_rank);
  }
  if (parent != nullptr && parent->is_revoked()) group->mark(ThreadGroup::revoked);
}

void ThreadRegistry::kill(int world_rank) {
  std::vector<std::shared_ptr<ThreadGroup>> living;
  {
    std::lock_guard lock(mutex_);
    dead_[static_cast<std::size_t>(world_rank)] = true;
    for (const auto& known : groups_) {
      if (auto group = known.lock()) {
        group->mark_dead(world_rank);
        living.push_back(std::move(group));
      }
    }
  }
  for (const auto& group : living) group->notify();
}

void ThreadRegistry::revoke(const ThreadGroup* ancestor) {
  std::vector<std::shared_ptr<ThreadGroup>> affected;
  {
    std::lock_guard lock(mutex_);
    for (const auto& known : groups_) {
      auto group = known.lock();
      if (group == nullptr) continue;
      if (ancestor != nullptr && !is_or_descends_from(*group, *ancestor)) continue;
      group->mark(ThreadGroup::revoked);
      affected.push_back(std::move(group));
    }
  }
  for (const auto& group : affected) group->notify();
}

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadRegistry> registry, const ThreadGroup* parent,
                         Group group)
    : registry(std::move(registry)),
      group(std::move(group)),
      id(this->registry->next_id()),
      slots(this->group.world_ranks.size()) {
  if (parent == nullptr) return;
  ancestors = parent->ancestors;
  ancestors.push_back(parent->id);
}

void ThreadGroup::mark_dead(int world_rank) {
  for (int r = 0; r < size(); ++r) {
    if (group.world_ranks[static_cast<std::size_t>(r)] != world_rank) continue;
    slot(r).dead.store(true, std::memory_order_seq_cst);
    mark(peer_dead);
  }
}

void ThreadGroup::notify() {
  { std::lock_guard lock(mutex); }  // nobody is between looking and sleeping
  changed.notify_all();
}

void ThreadGroup::signal() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) notify();
}

std::vector<int> ThreadGroup::failed_ranks() const {
  std::vector<int> failed;
  for (std::size_t r = 0; r < slots.size(); ++r) {
    if (slots[r].dead.load()) failed.push_back(static_cast<int>(r));
  }
  return failed;
}

bool ThreadGroup::begin_touching(int rank) {
  slot(rank).touching.store(true, std::memory_order_seq_cst);
  if (!broken()) return true;
  end_touching(rank);
  return false;
}

void ThreadGroup::wait_until_untouched(int rank) {
  for (int r = 0; r < size(); ++r) {
    // Short: a reader looks at broken() before every chunk.
    while (r != rank && slot(r).touching.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }
}

void ThreadGroup::fail(int rank, const std::string& place, ErrorKind kind,
                       const std::string& detail) {
  if (!broken()) mark(poisoned);
  notify();
  wait_until_untouched(rank);
  throw_broken(rank, place, kind, detail);
}

void ThreadGroup::throw_broken(int rank, const std::string& place, ErrorKind otherwise,
                               const std::string& detail) const {
  const auto world_rank = [this](int r) { return group.world_ranks[static_cast<std::size_t>(r)]; };
  if (slots[static_cast<std::size_t>(rank)].dead.load()) {
    throw Error(ErrorKind::peer_died, place, "this rank was killed", world_rank(rank));
  }
  if (const auto failed = failed_ranks(); !failed.empty()) {
    throw Error(ErrorKind::peer_died, place,
                "world rank " + std::to_string(world_rank(failed.front())) + " died",
                world_rank(failed.front()));
  }
  throw Error(otherwise, place, detail, world_rank(rank));
}

}  // namespace shardproof::internal
