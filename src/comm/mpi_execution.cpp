// mpi_execution: posts, tests and gives up the messages of a plan.
#include "comm/mpi_execution.h"

#include <cstring>
#include <span>
#include <thread>

#include "base/check.h"
#include "comm/local_reduce.h"

namespace shardproof {

namespace {

constexpr std::size_t small_bytes = 4096;
constexpr std::size_t kept = 64;  // free buffers of a size; more are returned to the heap

// Copies that a peer may still ask for. They are never freed: MPI offers no way to take a send
// back.
void keep_forever(SendBuffer copy) {
  static std::mutex mutex;
  static auto* const copies = new std::vector<SendBuffer>;
  const std::lock_guard lock(mutex);
  copies->push_back(std::move(copy));
}

}  // namespace

SendBuffer SendBuffers::take(std::size_t bytes) {
  const bool small = bytes <= small_bytes;
  SP_CHECK_LE(bytes, plan_chunk_bytes);
  std::vector<SendBuffer>& free = small ? small_ : large_;
  {
    const std::lock_guard lock(mutex_);
    if (!free.empty()) {
      SendBuffer buffer = std::move(free.back());
      free.pop_back();
      return buffer;
    }
  }
  const std::size_t capacity = small ? small_bytes : plan_chunk_bytes;
  return {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity};
}

void SendBuffers::give_back(SendBuffer buffer) {
  if (!buffer.data) return;
  std::vector<SendBuffer>& free = buffer.capacity == small_bytes ? small_ : large_;
  const std::lock_guard lock(mutex_);
  if (free.size() < kept) free.push_back(std::move(buffer));
}

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

std::string call_place(const MpiGroup& group, CallKind kind, int peer, int tag) {
  const std::string call = group.group().name + " " + std::string(name(kind));
  const std::string number = std::to_string(tag % tag_space);
  if (!is_message(kind)) return call + " #" + number;
  return call + (kind == CallKind::send ? " to" : " from") + " group rank " + std::to_string(peer) +
         " tag " + number;
}

MpiExecution::MpiExecution(std::shared_ptr<MpiGroup> group, SendBuffers& buffers, const Call& call,
                           int tag)
    : group_(std::move(group)),
      buffers_(buffers),
      kind_(call.kind),
      peer_(call.peer),
      op_(call.op),
      dtype_(call.dtype),
      tag_(tag),
      plan_(make_plan(call, group_->rank(), group_->size())) {
  messages_.reserve(plan_.messages);
}

MpiExecution::~MpiExecution() {
  abandon();
}

std::string MpiExecution::place() const {
  return call_place(*group_, kind_, peer_, tag_);
}

bool MpiExecution::advance() {
  while (next_step_ < plan_.steps.size()) {
    const PlanStep& step = plan_.steps[next_step_];
    switch (step.kind) {
      case PlanStep::Kind::send:
      case PlanStep::Kind::recv:
        post(step);
        break;
      case PlanStep::Kind::wait:
        for (; completed_ < step.size; ++completed_) {
          if (!complete(messages_[completed_])) return false;
        }
        break;
      case PlanStep::Kind::copy:
        std::memmove(step.to, step.from, step.size);
        break;
      case PlanStep::Kind::reduce:
        local_reduce(std::span(plan_.inputs).subspan(step.first_input, step.inputs), step.to,
                     step.size, dtype_, op_);
        break;
    }
    ++next_step_;
  }
  for (; completed_ < messages_.size(); ++completed_) {
    if (!complete(messages_[completed_])) return false;
  }
  return true;
}

void MpiExecution::post(const PlanStep& step) {
  Message& message = messages_.emplace_back();
  const int bytes = static_cast<int>(step.size);  // at most a chunk
  int code = MPI_SUCCESS;
  if (step.kind == PlanStep::Kind::recv) {
    message.receives = true;
    message.bytes = step.size;
    code = MPI_Irecv(step.to, bytes, MPI_BYTE, step.peer, tag_, group_->comm(), &message.request);
  } else {
    if (bytes > 0) {
      message.copy = buffers_.take(step.size);
      std::memcpy(message.copy.data.get(), step.from, step.size);
    }
    code = MPI_Isend(message.copy.data.get(), bytes, MPI_BYTE, step.peer, tag_, group_->comm(),
                     &message.request);
    bytes_sent_ += step.size;
  }
  if (code != MPI_SUCCESS) group_->fail(code, place());
}

bool MpiExecution::complete(Message& message) {
  MPI_Status status;
  int flag = 0;
  const int code = MPI_Test(&message.request, &flag, &status);
  if (code != MPI_SUCCESS) group_->fail(code, place());
  if (!flag) return false;
  if (message.receives) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (static_cast<std::size_t>(bytes) != message.bytes) {
      group_->poison();
      throw Error(ErrorKind::mismatch, place(),
                  "rank " + std::to_string(status.MPI_SOURCE) + " sent " + std::to_string(bytes) +
                      " bytes, expected " + std::to_string(message.bytes));
    }
  }
  buffers_.give_back(std::move(message.copy));
  return true;
}

void MpiExecution::abandon() {
  for (; completed_ < messages_.size(); ++completed_) {
    Message& message = messages_[completed_];
    if (message.request == MPI_REQUEST_NULL) continue;
    if (message.receives) {
      end_receive(message);
      continue;
    }
    int flag = 0;
    if (MPI_Test(&message.request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) {
      keep_forever(std::move(message.copy));
      MPI_Request_free(&message.request);
    }
  }
}

void MpiExecution::end_receive(Message& message) {
  // A receive that has met its message cannot be cancelled: the library is copying it here, which
  // takes moments, unless the sender was stopped halfway. Returning then would let the library
  // write into memory that the caller reuses.
  MPI_Cancel(&message.request);
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  int flag = 0;
  while (MPI_Test(&message.request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && !flag) {
    SP_CHECK(!deadline.expired(), "MPI cannot end a receive under way in " + place());
    std::this_thread::yield();
  }
}

}  // namespace shardproof
