// faulty_wire: bits that flip below the guards.
#include <cstring>
#include <utility>

#include "faults/inject/faulty_communicator.h"
#include "faults/inject/wrong_call.h"

namespace shardproof {
namespace {

// Faults of a whole rank are the outer decorator's.
std::vector<Fault> pass(Injector& injector, const Passing& passing, FaultKind kind) {
  const auto wanted = kind == FaultKind::flip_send
                          ? [](FaultKind one) { return one == FaultKind::flip_send; }
                          : [](FaultKind one) { return one == FaultKind::flip_recv; };
  return injector.pass_alone(passing, wanted);
}

// The call with flipped bytes in a buffer of its own; null: nothing is sent.
std::shared_ptr<std::vector<std::byte>> flip_sent(Call& call, int rank,
                                                  const std::vector<Fault>& faults) {
  const std::size_t bytes = call.send_elements(rank) * size_of(call.dtype);
  if (faults.empty() || bytes == 0) return nullptr;
  const bool root_of_broadcast = call.kind == CallKind::broadcast;
  const void* const from = root_of_broadcast ? call.recv : call.send;
  auto copy = std::make_shared<std::vector<std::byte>>(bytes);
  std::memcpy(copy->data(), from, bytes);
  for (const Fault& fault : faults) flip_bit(copy->data(), bytes, static_cast<int>(fault.argument));
  (root_of_broadcast ? call.recv : const_cast<void*&>(call.send)) = copy->data();
  return copy;
}

void flip_received(const Call& call, int rank, const std::vector<Fault>& faults) {
  const std::size_t bytes = call.recv_elements(rank) * size_of(call.dtype);
  if (bytes == 0) return;
  for (const Fault& fault : faults) flip_bit(call.recv, bytes, static_cast<int>(fault.argument));
}

class WireWork : public Work {
 public:
  WireWork(std::unique_ptr<Work> inner, std::function<void()> received)
      : inner_(std::move(inner)), received_(std::move(received)) {}
  void wait(Deadline deadline) override {
    inner_->wait(deadline);
    if (received_) std::exchange(received_, nullptr)();
  }
  bool done() const override { return inner_->done(); }

 private:
  std::unique_ptr<Work> inner_;
  std::function<void()> received_;
};

}  // namespace

FaultyWire::FaultyWire(std::unique_ptr<Communicator> inner, std::shared_ptr<Injector> injector)
    : ForwardingCommunicator(std::move(inner)), injector_(std::move(injector)) {}

void FaultyWire::run(const Call& right, Deadline deadline) {
  const Passing before = injector_->next_wire_call(group().name, std::string(name(right.kind)));
  Call call = right;
  const auto sent = flip_sent(call, rank(), pass(*injector_, before, FaultKind::flip_send));
  inner().run(call, deadline);
  const Passing after = at_moment(before, Moment::after);
  flip_received(right, rank(), pass(*injector_, after, FaultKind::flip_recv));
}

std::unique_ptr<Work> FaultyWire::start(const Call& right, Keep keep) {
  const Passing before = injector_->next_wire_call(group().name, std::string(name(right.kind)));
  Call call = right;
  auto sent = flip_sent(call, rank(), pass(*injector_, before, FaultKind::flip_send));
  using Both = std::pair<Keep, std::shared_ptr<std::vector<std::byte>>>;
  if (sent) keep = std::make_shared<Both>(std::move(keep), std::move(sent));
  const auto received = [injector = injector_, after = at_moment(before, Moment::after), right,
                         own = rank()] {
    flip_received(right, own, pass(*injector, after, FaultKind::flip_recv));
  };
  return std::make_unique<WireWork>(inner().start(call, std::move(keep)), received);
}

std::unique_ptr<Communicator> FaultyWire::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<FaultyWire>(std::move(child), injector_);
}

}  // namespace shardproof
