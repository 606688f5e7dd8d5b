// thread_mailbox: two queues per (from, to, tag), of which at most one holds anything.
#include "comm/thread_mailbox.h"

#include <algorithm>

namespace shardproof::internal {

std::shared_ptr<Message> ThreadMailbox::post(const std::shared_ptr<Message>& message) {
  std::lock_guard lock(mutex_);
  Queues& queues = queues_[{message->from, message->to, message->tag}];
  auto& counterparts = message->is_send ? queues.recvs : queues.sends;
  if (counterparts.empty()) {
    (message->is_send ? queues.sends : queues.recvs).push_back(message);
    return nullptr;
  }
  auto counterpart = counterparts.front();
  counterparts.pop_front();
  message->state.store(Message::moving);
  counterpart->state.store(Message::moving);
  return counterpart;
}

bool ThreadMailbox::withdraw(const std::shared_ptr<Message>& message) {
  std::lock_guard lock(mutex_);
  if (message->state.load() != Message::waiting) return false;
  Queues& queues = queues_[{message->from, message->to, message->tag}];
  std::erase(message->is_send ? queues.sends : queues.recvs, message);
  message->state.store(Message::stopped);
  return true;
}

}  // namespace shardproof::internal
