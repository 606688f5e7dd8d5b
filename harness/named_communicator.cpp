// named_communicator: the name of a child begins with that of its parent.
#include "harness/named_communicator.h"

#include <utility>

#include "base/check.h"

namespace shardproof {

NamedCommunicator::NamedCommunicator(std::unique_ptr<Communicator> inner_comm, std::string name)
    : ForwardingCommunicator(std::move(inner_comm)),
      group_{std::move(name), inner().group().world_ranks} {}

std::unique_ptr<Communicator> NamedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  const std::string& parent = inner().group().name;
  const std::string& name = child->group().name;
  SP_CHECK(name.starts_with(parent), name + " is no child of " + parent);
  std::string translated = group_.name + name.substr(parent.size());
  return std::make_unique<NamedCommunicator>(std::move(child), std::move(translated));
}

}  // namespace shardproof
