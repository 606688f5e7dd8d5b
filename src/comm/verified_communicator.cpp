// verified_communicator: agree, then let the call through.
#include "comm/verified_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "comm/control_label.h"

namespace shardproof {

namespace {

bool is_message(const Call& call) {
  return call.kind == CallKind::send || call.kind == CallKind::recv;
}

Call envelope_call(const Call& call, Envelope& envelope) {
  Call carries = call;
  carries.dtype = Dtype::u8;
  carries.count = sizeof envelope;
  carries.send = call.kind == CallKind::send ? &envelope : nullptr;
  carries.recv = call.kind == CallKind::recv ? &envelope : nullptr;
  return carries;
}

class CollectiveWork : public Work {
 public:
  CollectiveWork(Communicator& comm, std::shared_ptr<AsyncCall> call, std::string place)
      : comm_(comm), call_(std::move(call)), place_(std::move(place)) {}
  ~CollectiveWork() override { call_->wait(Deadline::never()); }  // the call has its own deadline

  void wait(Deadline deadline) override {
    if (!call_->wait(deadline)) {
      comm_.abort();  // returns when the call has ended
      throw Error(ErrorKind::timeout, place_, "an asynchronous call did not end");
    }
    call_->rethrow();
  }
  bool done() const override { return call_->done(); }

 private:
  Communicator& comm_;
  const std::shared_ptr<AsyncCall> call_;
  const std::string place_;
};

}  // namespace

// A mistake of this rank alone: the others would wait for it in vain.
template <typename Action>
auto VerifiedCommunicator::told_to_all(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    const int self = group().world_ranks[static_cast<std::size_t>(rank())];
    agreement_->give_notice(fmt::format("rank {}: {}: {}", self, error.place(), error.detail()));
    inner().revoke();
    throw;
  }
}

// A started message: its envelope and its data, both under way. What is received lies apart until
// the envelope has been compared.
class VerifiedCommunicator::Message : public Work {
 public:
  Message(VerifiedCommunicator& owner, const Call& call, Keep keep)
      : owner_(owner), call_(call), keep_(std::move(keep)), place_(owner.place_of_message(call)) {
    const bool receives = call.kind == CallKind::recv;
    expected_ = owner.next_envelope(call);
    auto travels = std::make_shared<Envelope>(receives ? Envelope{} : expected_);
    travels_ = travels;
    flight_ = owner.board(call, place_);
    envelope_ = owner.control_->start(envelope_call(call, *travels), travels);
    Call data = call;
    if (receives) {
      staged_ = std::make_shared<std::vector<std::byte>>(call.count * size_of(call.dtype));
      data.recv = staged_->data();
      data_ = owner.inner().start(data, staged_);
    } else {
      data_ = owner.inner().start(data, keep_);
    }
  }
  ~Message() override {
    if (ended_) return;
    try {
      wait(default_deadline(owner_));
    } catch (const Error&) {  // nobody asked; the buffer is free, and that is the point
    }
  }

  void wait(Deadline deadline) override {
    if (ended_) {
      if (failure_) throw *failure_;
      return;
    }
    try {
      owner_.explained([&] { finish(deadline); });
      end();
    } catch (const Error& error) {
      failure_ = Error(error.kind(), place_, error.detail(), error.world_rank());
      end();
      throw *failure_;
    }
  }
  bool done() const override { return ended_ || (envelope_->done() && data_->done()); }

 private:
  void finish(const Deadline& deadline) {
    envelope_->wait(deadline);
    if (staged_) owner_.compare(call_, *travels_, expected_, place_);
    data_->wait(deadline);
    if (staged_ && !staged_->empty()) {
      std::memcpy(call_.recv, staged_->data(), staged_->size());
    }
    owner_.told_to_all([&] { flight_->check_unchanged(); });
  }
  void end() {
    ended_ = true;
    envelope_.reset();
    data_.reset();
    flight_.reset();
    keep_.reset();
  }

  VerifiedCommunicator& owner_;
  const Call call_;
  Keep keep_;
  const std::string place_;
  Envelope expected_;
  std::shared_ptr<Envelope> travels_;
  std::shared_ptr<std::vector<std::byte>> staged_;  // of a receive
  std::unique_ptr<BuffersInFlight::Flight> flight_;
  std::unique_ptr<Work> envelope_;
  std::unique_ptr<Work> data_;
  bool ended_ = false;
  std::optional<Error> failure_;
};

VerifiedCommunicator::VerifiedCommunicator(std::unique_ptr<Communicator> inner,
                                           VerifyOptions options)
    : ForwardingCommunicator(std::move(inner)),
      options_(std::move(options)),
      control_(size() == 1 ? nullptr
                           : this->inner().split(0, rank(), std::string(control_label),
                                                 default_deadline(*this))) {
  if (control_ == nullptr) return;
  agreement_ = std::make_unique<ContractAgreement>(*control_, options_.way, options_.counters);
}

std::unique_ptr<Communicator> VerifiedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<VerifiedCommunicator>(std::move(child), options_);
}

template <typename Action>
void VerifiedCommunicator::explained(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::timeout && !inner().poisoned()) inner().abort();
    if (error.kind() != ErrorKind::revoked) throw;
    const auto notice = agreement_->notice();
    if (!notice) throw;
    throw Error(ErrorKind::mismatch, group().name, *notice, error.world_rank());
  }
}

void VerifiedCommunicator::after_started_calls(const Deadline& deadline) {
  if (thread_.wait_idle(deadline)) return;
  abort();
  throw Error(ErrorKind::timeout, group().name, "waited for asynchronous calls started before");
}

void VerifiedCommunicator::agree(const Proposal& proposal, const Deadline& deadline) {
  try {
    agreement_->agree(proposal, inner(), deadline);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::mismatch) {
      agreement_->give_notice(fmt::format("{}: {}", error.place(), error.detail()));
      try {  // everybody has the texts before the way on which they came is closed
        control_->run(Call{}, Deadline::after(std::chrono::seconds(1)));
      } catch (const Error&) {  // one was quicker
      }
      inner().revoke();
    }
    throw;
  }
}

void VerifiedCommunicator::run(const Call& call, Deadline deadline) {
  if (control_ == nullptr) return inner().run(call, deadline);
  validate(call, rank(), size());
  if (is_message(call)) return explained([&] { run_message(call, deadline); });
  explained([&] {
    after_started_calls(deadline);
    const Proposal proposal{collectives_++, &call, {}, rank()};
    check_buffers(call, [&] { return place_of(*this, proposal); });
    agree(proposal, deadline);
    inner().run(call, deadline);
  });
}

std::unique_ptr<Work> VerifiedCommunicator::start(const Call& call, Keep keep) {
  if (control_ == nullptr) return inner().start(call, std::move(keep));
  validate(call, rank(), size());
  if (is_message(call)) return start_message(call, std::move(keep));
  const std::uint64_t sequence = collectives_++;
  const std::string place = place_of(*this, {sequence, &call, {}, rank()});
  std::shared_ptr<BuffersInFlight::Flight> flight = board(call, place);
  auto under_way = std::make_shared<AsyncCall>(nullptr);
  thread_.post([this, call, sequence, under_way, flight, keep = std::move(keep)]() mutable {
    std::optional<Error> failure;
    try {
      explained([&] {
        const Deadline deadline = default_deadline(*this);
        agree({sequence, &call, {}, rank()}, deadline);
        inner().start(call, std::move(keep))->wait(deadline);
        told_to_all([&] { flight->check_unchanged(); });
      });
    } catch (const Error& error) {
      failure = error;
    }
    keep.reset();
    flight.reset();
    under_way->complete(std::move(failure));
  });
  return std::make_unique<CollectiveWork>(*this, std::move(under_way), place);
}

std::unique_ptr<Communicator> VerifiedCommunicator::split(int color, int key,
                                                          const std::string& label,
                                                          Deadline deadline) {
  if (control_ != nullptr) {
    explained([&] {
      after_started_calls(deadline);
      agree({collectives_++, nullptr, label, rank()}, deadline);
    });
  }
  return ForwardingCommunicator::split(color, key, label, deadline);
}

void VerifiedCommunicator::abort() {
  inner().abort();
  if (control_ == nullptr) return;
  control_->abort();
  thread_.wait_idle(Deadline::never());  // short: the group is broken
}

void VerifiedCommunicator::check_buffers(const Call& call,
                                         const std::function<std::string()>& place) {
  told_to_all([&] { options_.buffers->check(call, rank(), place); });
}

std::unique_ptr<BuffersInFlight::Flight> VerifiedCommunicator::board(const Call& call,
                                                                     const std::string& place) {
  return told_to_all([&] { return options_.buffers->start(call, rank(), place); });
}

std::string VerifiedCommunicator::place_of_message(const Call& call) const {
  return fmt::format("{} {} {} group rank {} tag {}", group().name, name(call.kind),
                     call.kind == CallKind::send ? "to" : "from", call.peer, call.tag);
}

Envelope VerifiedCommunicator::next_envelope(const Call& call) {
  ++options_.counters->envelopes;
  if (call.kind == CallKind::send) options_.counters->bytes += sizeof(Envelope);
  return envelope_of(call, messages_[{call.kind, call.peer, call.tag}]++);
}

void VerifiedCommunicator::compare(const Call& call, const Envelope& sent, const Envelope& expected,
                                   const std::string& place) {
  const auto world_rank = [&](int r) { return group().world_ranks[static_cast<std::size_t>(r)]; };
  const std::string found = differences(sent, world_rank(call.peer), expected, world_rank(rank()));
  if (found.empty()) return;
  agreement_->give_notice(fmt::format("{}: {}", place, found));
  inner().revoke();
  throw Error(ErrorKind::mismatch, place, found, world_rank(rank()));
}

void VerifiedCommunicator::run_message(const Call& call, const Deadline& deadline) {
  const auto place = [&] { return place_of_message(call); };
  check_buffers(call, place);
  const Envelope expected = next_envelope(call);
  Envelope travels = expected;
  try {
    control_->run(envelope_call(call, travels), deadline);
  } catch (const Error& error) {  // say it of the program's own group
    throw Error(error.kind(), place(), error.detail(), error.world_rank());
  }
  if (call.kind == CallKind::recv) compare(call, travels, expected, place());
  inner().run(call, deadline);
}

std::unique_ptr<Work> VerifiedCommunicator::start_message(const Call& call, Keep keep) {
  return std::make_unique<Message>(*this, call, std::move(keep));
}

}  // namespace shardproof
