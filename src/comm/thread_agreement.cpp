// thread_agreement: rounds under the group's mutex; waiting is by condition variable (rare calls).
#include "comm/thread_agreement.h"

#include <algorithm>
#include <utility>

#include "comm/deadline_wait.h"

namespace shardproof::internal {

namespace {

using Round = ThreadGroup::Round;
using Proposal = ThreadGroup::Proposal;

int world_rank(const ThreadGroup& group, int rank) {
  return group.group.world_ranks[static_cast<std::size_t>(rank)];
}

// Makes a group of `members` (ranks of `group`) and puts it where each of them will find it.
void make_child(ThreadGroup& group, const ThreadGroup* parent, Round& round,
                const std::string& name, const std::vector<int>& members) {
  Group description{name, {}};
  for (const int r : members) description.world_ranks.push_back(world_rank(group, r));
  auto child = std::make_shared<ThreadGroup>(group.registry, parent, std::move(description));
  group.registry->add(child, parent);
  for (const int r : members) round.children[static_cast<std::size_t>(r)] = child;
}

void decide_split(ThreadGroup& group, Round& round) {
  const std::string& label = round.proposals.begin()->second.label;
  const int repeat = group.label_uses[label]++;
  std::map<int, std::vector<std::pair<int, int>>> by_color;  // color -> (key, rank)
  for (const auto& [rank, proposal] : round.proposals) {
    if (proposal.color >= 0) by_color[proposal.color].emplace_back(proposal.key, rank);
  }
  for (auto& [color, keyed] : by_color) {
    std::sort(keyed.begin(), keyed.end());
    std::vector<int> members;
    for (const auto& [key, rank] : keyed) members.push_back(rank);
    make_child(group, &group, round, child_name(group.group.name, label, repeat, color), members);
  }
}

std::vector<int> living(const ThreadGroup& group, const Round& round) {
  std::vector<int> ranks;
  for (const auto& [rank, proposal] : round.proposals) {
    if (!group.slots[static_cast<std::size_t>(rank)].dead.load()) ranks.push_back(rank);
  }
  return ranks;
}

void decide_agree(ThreadGroup& group, Round& round) {
  for (const int rank : living(group, round)) round.flags |= round.proposals.at(rank).flags;
}

void decide_shrink(ThreadGroup& group, Round& round) {
  const std::string& label = round.proposals.begin()->second.label;
  const int repeat = group.label_uses[label]++;
  // No parent: a group that is made to go on after a revocation must not inherit it.
  make_child(group, nullptr, round, child_name(group.group.name, label, repeat, -1),
             living(group, round));
}

struct Rules {
  const char* what;
  std::map<std::uint64_t, Round>& rounds;
  bool recovers;  // works on a broken group, waits for living ranks only
  void (*decide)(ThreadGroup& group, Round& round);
};

bool complete(const ThreadGroup& group, const Round& round, bool recovers) {
  for (int r = 0; r < static_cast<int>(group.slots.size()); ++r) {
    if (round.proposals.contains(r)) continue;
    if (!recovers || !group.slots[static_cast<std::size_t>(r)].dead.load()) return false;
  }
  return true;
}

Decision take(std::map<std::uint64_t, Round>& rounds, std::uint64_t number,
              const ThreadGroup& group, int rank) {
  Round& round = rounds.at(number);
  Decision decision;
  decision.flags = round.flags;
  decision.child = std::move(round.children[static_cast<std::size_t>(rank)]);
  if (decision.child != nullptr) {
    const auto& members = decision.child->group.world_ranks;
    decision.child_rank = static_cast<int>(
        std::find(members.begin(), members.end(), world_rank(group, rank)) - members.begin());
  }
  if (++round.taken == static_cast<int>(round.proposals.size())) rounds.erase(number);
  return decision;
}

Decision join(ThreadGroup& group, const Rules& rules, int rank, std::uint64_t number,
              Proposal proposal, const Deadline& deadline) {
  const std::string place = group.group.name + " " + rules.what + " #" + std::to_string(number);
  const RankSlot& mine = group.slot(rank);
  const auto stopped = [&] { return rules.recovers ? mine.dead.load() : group.broken(); };

  std::unique_lock lock(group.mutex);
  if (!stopped()) {
    Round& round = rules.rounds[number];
    round.children.resize(group.slots.size());
    round.proposals[rank] = std::move(proposal);
    wait_under(group.changed, lock, deadline, [&] {
      if (!round.decided && !stopped() && complete(group, round, rules.recovers)) {
        rules.decide(group, round);
        round.decided = true;
        group.changed.notify_all();
      }
      return round.decided || stopped();
    });
    if (round.decided) return take(rules.rounds, number, group, rank);
  }
  const bool was_stopped = stopped();
  lock.unlock();
  if (!was_stopped) {
    group.mark(ThreadGroup::poisoned);
    group.notify();
    throw Error(ErrorKind::timeout, place, "not every rank took part", world_rank(group, rank));
  }
  group.throw_broken(rank, place, ErrorKind::revoked, "the communicator was revoked or poisoned");
}

}  // namespace

Decision split(ThreadGroup& group, int rank, std::uint64_t round, Proposal proposal,
               const Deadline& deadline) {
  return join(group, {"split", group.splits, false, decide_split}, rank, round, std::move(proposal),
              deadline);
}

Decision agree(ThreadGroup& group, int rank, std::uint64_t round, std::uint64_t flags,
               const Deadline& deadline) {
  return join(group, {"agree", group.agreements, true, decide_agree}, rank, round,
              Proposal{flags, 0, 0, ""}, deadline);
}

Decision shrink(ThreadGroup& group, int rank, std::uint64_t round, const std::string& label,
                const Deadline& deadline) {
  return join(group, {"shrink", group.shrinks, true, decide_shrink}, rank, round,
              Proposal{0, 0, 0, label}, deadline);
}

}  // namespace shardproof::internal
