// pool: agree, then shrink.
#include "harness/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/named_communicator.h"

namespace shardproof {

Pool::Pool(std::unique_ptr<Communicator> all, Wrap wrap)
    : wrap_(std::move(wrap)), comm_(std::move(all)) {}

std::vector<std::string> Pool::gather(const std::string& mine) {
  if (!wrap_) return all_gather_text(*comm_, mine);
  if (!talk_) {
    auto talk = comm_->split(0, position(), "talk", default_deadline(*comm_));
    talk_ = wrap_(
        std::make_unique<NamedCommunicator>(std::move(talk), fmt::format("regroup~{}", meetings_)));
  }
  return all_gather_text(*talk_, mine);
}

std::unique_ptr<Communicator> Pool::world(const std::vector<int>& members,
                                          const std::string& name) {
  const bool mine = std::find(members.begin(), members.end(), position()) != members.end();
  auto world = comm_->split(mine ? 0 : -1, position(), "work", default_deadline(*comm_));
  if (!world) return nullptr;
  return std::make_unique<NamedCommunicator>(std::move(world), name);
}

Meeting Pool::meet(GoEnd mine, Duration patience) {
  Meeting met;
  // One without a place waits for as long as the others train: they have deadlines, and an
  // agreement ends when they die.
  const bool idle = mine == GoEnd::waited;
  met.ends = comm_->agree(static_cast<std::uint64_t>(mine),
                          idle ? Deadline::never() : Deadline::after(patience));
  auto left = shrunk();
  const std::vector<int>& alive = left->group().world_ranks;
  std::set_difference(ranks().begin(), ranks().end(), alive.begin(), alive.end(),
                      std::back_inserter(met.died));
  if (!met.died.empty()) comm_->abort();  // the library may still speak of it
  talk_.reset();
  comm_ = std::move(left);
  return met;
}

// A rank that dies while the group is made may leave some with a group and some without: what all
// agree on counts.
std::unique_ptr<Communicator> Pool::shrunk() {
  const std::string label = fmt::format("regroup.{}", ++meetings_);
  for (;;) {
    std::unique_ptr<Communicator> left;
    try {
      left = comm_->shrink(label, default_deadline(*comm_));
    } catch (const Error& error) {
      const bool death = error.kind() == ErrorKind::peer_died || error.kind() == ErrorKind::revoked;
      if (!death) throw;
    }
    if (comm_->agree(left ? 0 : 1, default_deadline(*comm_)) == 0) return left;
    if (left) left->abort();
  }
}

}  // namespace shardproof
