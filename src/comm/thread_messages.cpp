// thread_messages: posting, moving in chunks, waiting, taking back.
#include "comm/thread_messages.h"

#include <cstring>
#include <utility>

#include "comm/thread_collectives.h"

namespace shardproof::internal {

namespace {

void finish(Message& message, Message::State state) {
  Keep dropped = std::move(message.keep);
  dropped.reset();  // before anyone hears that it is done
  message.state.store(state, std::memory_order_seq_cst);
}

// Both messages are `moving`, so nobody else touches them.
void move(ThreadGroup& group, Message& one, Message& other) {
  Message& send = one.is_send ? one : other;
  Message& recv = one.is_send ? other : one;
  Message::State state = Message::mismatched;
  if (send.bytes == recv.bytes) {
    group.slot(send.from).bytes_sent.fetch_add(send.bytes, std::memory_order_relaxed);
    const auto* source = static_cast<const std::byte*>(send.source);
    auto* target = static_cast<std::byte*>(recv.target);
    const bool whole =
        !group.broken() && for_chunks(group, send.bytes, 1, [&](std::size_t begin, std::size_t n) {
          std::memcpy(target + begin, source + begin, n);
        });
    state = whole ? Message::done : Message::stopped;
  }
  finish(send, state);
  finish(recv, state);
  group.signal();
}

std::string place_of(const ThreadGroup& group, const Message& message) {
  return group.group.name + (message.is_send ? " send to " : " recv from ") + "group rank " +
         std::to_string(message.is_send ? message.to : message.from) + " tag " +
         std::to_string(message.tag);
}

// Precondition: the group is broken. Returns when no thread touches the message's buffer.
void take_back(ThreadGroup& group, const std::shared_ptr<Message>& message) {
  if (group.mailbox.withdraw(message)) {
    message->keep.reset();
    return;
  }
  while (!message->ended()) std::this_thread::yield();  // short: a chunk of a broken group
}

void wait_for(ThreadGroup& group, int rank, const std::shared_ptr<Message>& message,
              const Deadline& deadline) {
  const WaitEnd end = group.wait([&] { return message->ended(); }, deadline);
  const std::string place = place_of(group, *message);
  if (end == WaitEnd::ready && message->state.load() == Message::done) return;
  if (end == WaitEnd::ready && message->state.load() == Message::mismatched) {
    group.fail(rank, place, ErrorKind::mismatch, "the peer's message has another length");
  }
  const bool late = end == WaitEnd::timeout;
  if (!group.broken()) group.mark(ThreadGroup::poisoned);
  group.notify();
  take_back(group, message);
  group.throw_broken(rank, place, late ? ErrorKind::timeout : ErrorKind::revoked,
                     late ? "the peer did not come" : "the communicator was revoked or poisoned");
}

class MessageWork : public Work {
 public:
  MessageWork(std::shared_ptr<ThreadGroup> group, int rank, std::shared_ptr<Message> message)
      : group_(std::move(group)),
        rank_(rank),
        message_(std::move(message)),
        deadline_(Deadline::after(group_->registry->timeout)) {}

  ~MessageWork() override {
    try {
      wait_for(*group_, rank_, message_, deadline_);
    } catch (const Error&) {  // nobody asked; the buffer is free, and that is the point
    }
  }
  void wait(Deadline deadline) override { wait_for(*group_, rank_, message_, deadline); }
  bool done() const override { return message_->ended(); }

 private:
  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  std::shared_ptr<Message> message_;
  const Deadline deadline_;
};

}  // namespace

ThreadMessages::ThreadMessages(std::shared_ptr<ThreadGroup> group, int rank)
    : group_(std::move(group)), rank_(rank) {}

std::shared_ptr<Message> ThreadMessages::make(const Call& call, Keep keep) const {
  auto message = std::make_shared<Message>();
  message->is_send = call.kind == CallKind::send;
  message->from = message->is_send ? rank_ : call.peer;
  message->to = message->is_send ? call.peer : rank_;
  message->tag = call.tag;
  message->source = call.send;
  message->target = call.recv;
  message->bytes = call.count * size_of(call.dtype);
  message->keep = std::move(keep);
  if (group_->broken()) {
    group_->throw_broken(rank_, place_of(*group_, *message), ErrorKind::revoked,
                         "the communicator was revoked or poisoned");
  }
  return message;
}

void ThreadMessages::run(const Call& call, const Deadline& deadline) {
  const auto message = make(call, nullptr);
  if (const auto counterpart = group_->mailbox.post(message)) move(*group_, *message, *counterpart);
  wait_for(*group_, rank_, message, deadline);
}

std::unique_ptr<Work> ThreadMessages::start(const Call& call, Keep keep) {
  auto message = make(call, std::move(keep));
  {
    std::lock_guard lock(mutex_);
    std::erase_if(under_way_, [](const auto& known) { return known.expired(); });
    under_way_.push_back(message);
  }
  if (auto counterpart = group_->mailbox.post(message)) {
    thread_.post([group = group_, message, counterpart] { move(*group, *message, *counterpart); });
  }
  return std::make_unique<MessageWork>(group_, rank_, std::move(message));
}

void ThreadMessages::stop() {
  std::lock_guard lock(mutex_);
  for (const auto& known : under_way_) {
    if (const auto message = known.lock()) take_back(*group_, message);
  }
}

}  // namespace shardproof::internal
