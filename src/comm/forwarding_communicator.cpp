// forwarding_communicator: every function hands on to the inner communicator; children are
// rewrapped.
#include "comm/forwarding_communicator.h"

#include <utility>

#include "base/check.h"
#include "comm/control_label.h"

namespace shardproof {

ForwardingCommunicator::ForwardingCommunicator(std::unique_ptr<Communicator> inner)
    : inner_(std::move(inner)) {
  SP_CHECK(inner_ != nullptr, "a decorator needs a communicator");
}

int ForwardingCommunicator::rank() const {
  return inner_->rank();
}
int ForwardingCommunicator::size() const {
  return inner_->size();
}
const Group& ForwardingCommunicator::group() const {
  return inner_->group();
}

void ForwardingCommunicator::run(const Call& call, Deadline deadline) {
  inner_->run(call, deadline);
}

std::unique_ptr<Work> ForwardingCommunicator::start(const Call& call, Keep keep) {
  return inner_->start(call, std::move(keep));
}

std::unique_ptr<Communicator> ForwardingCommunicator::split(int color, int key,
                                                            const std::string& label,
                                                            Deadline deadline) {
  auto child = inner_->split(color, key, label, deadline);
  if (label == control_label) return child;
  return child ? rewrap(std::move(child)) : nullptr;
}

void ForwardingCommunicator::revoke() {
  inner_->revoke();
}
void ForwardingCommunicator::abort() {
  inner_->abort();
}
bool ForwardingCommunicator::poisoned() const {
  return inner_->poisoned();
}
std::vector<int> ForwardingCommunicator::failed_ranks() const {
  return inner_->failed_ranks();
}

std::uint64_t ForwardingCommunicator::agree(std::uint64_t flags, Deadline deadline) {
  return inner_->agree(flags, deadline);
}

std::unique_ptr<Communicator> ForwardingCommunicator::shrink(const std::string& label,
                                                             Deadline deadline) {
  auto child = inner_->shrink(label, deadline);
  return child ? rewrap(std::move(child)) : nullptr;
}

Traffic ForwardingCommunicator::traffic() const {
  return inner_->traffic();
}
Duration ForwardingCommunicator::timeout() const {
  return inner_->timeout();
}

}  // namespace shardproof
