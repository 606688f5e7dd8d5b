// delayed_communicator: sleeps before synchronous calls, and holds back the completion of started
// ones as a wire would: one after the other.
#include "comm/delayed_communicator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shardproof {

namespace {

// Sleeps `duration`, or until the deadline: false. Both may be on clocks of their own.
bool sleep_under(Clock& clock, Duration duration, const Deadline& deadline) {
  const Duration left = deadline.left();
  if (duration > Duration::zero()) clock.sleep_for(std::min(duration, left));
  return duration <= left;
}

class DelayedWork : public Work {
 public:
  // `comm` must outlive the work.
  DelayedWork(std::unique_ptr<Work> inner, Communicator& comm, Clock& clock, Duration due)
      : inner_(std::move(inner)), comm_(comm), clock_(clock), due_(due) {}

  void wait(Deadline deadline) override {
    inner_->wait(deadline);
    if (sleep_under(clock_, due_ - clock_.now(), deadline)) return;
    comm_.abort();
    throw Error(ErrorKind::timeout, comm_.group().name, "a delayed call did not end");
  }
  bool done() const override { return inner_->done() && clock_.now() >= due_; }

 private:
  std::unique_ptr<Work> inner_;
  Communicator& comm_;
  Clock& clock_;
  const Duration due_;
};

}  // namespace

DelayedCommunicator::DelayedCommunicator(std::unique_ptr<Communicator> inner,
                                         CommunicationDelay delay, Clock& clock)
    : ForwardingCommunicator(std::move(inner)), delay_(delay), clock_(clock) {
  SP_CHECK_LE(Duration::zero().count(), delay.latency.count());
  SP_CHECK_LE(0.0, delay.bytes_per_second);
}

Duration DelayedCommunicator::delay_of(const Call& call) const {
  Duration delay = delay_.latency;
  if (delay_.bytes_per_second > 0) {
    const std::size_t elements = std::max(call.send_elements(rank()), call.recv_elements(rank()));
    const double seconds =
        static_cast<double>(elements * size_of(call.dtype)) / delay_.bytes_per_second;
    delay += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  return delay;
}

void DelayedCommunicator::run(const Call& call, Deadline deadline) {
  if (!sleep_under(clock_, delay_of(call), deadline)) {
    inner().abort();
    throw Error(ErrorKind::timeout, group().name + " " + std::string(name(call.kind)),
                "the delay is longer than the deadline");
  }
  inner().run(call, deadline);
}

Duration DelayedCommunicator::reserve(const Call& call) {
  std::lock_guard lock(mutex_);
  due_ = std::max(due_, clock_.now()) + delay_of(call);
  return due_;
}

std::unique_ptr<Work> DelayedCommunicator::start(const Call& call, Keep keep) {
  const Duration due = reserve(call);
  return std::make_unique<DelayedWork>(inner().start(call, std::move(keep)), inner(), clock_, due);
}

std::unique_ptr<Communicator> DelayedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<DelayedCommunicator>(std::move(child), delay_, clock_);
}

}  // namespace shardproof
