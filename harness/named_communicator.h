// named_communicator: gives a group another name, and every group that is split from it a name of
// the same form: the calls of an elastic run are those of "world", "world/dp.0" whatever the pool
// of ranks is called from which its world was split. Ranks keep the numbers that they had when the
// job began (Group::world_ranks). Thread rule: as a communicator.
#pragma once

#include <memory>
#include <string>

#include "comm/forwarding_communicator.h"

namespace shardproof {

class NamedCommunicator : public ForwardingCommunicator {
 public:
  NamedCommunicator(std::unique_ptr<Communicator> inner, std::string name);
  const Group& group() const override { return group_; }

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  const Group group_;
};

}  // namespace shardproof
