// mpi_execution: one call under way: carries out a CallPlan, a poll at a time. Every message is
// sent from a copy of ours, so a peer never reads the caller's memory: a call that fails leaves
// nothing behind that could be read after the caller has reused its buffer. Thread rule: one thread
// at a time. Internal to the MPI backend.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/mpi_group.h"
#include "comm/mpi_plan.h"

namespace shardproof {

struct SendBuffer {
  std::unique_ptr<std::byte[]> data;
  std::size_t capacity = 0;
};

// Send copies that are free for reuse. Thread rule: any thread.
class SendBuffers {
 public:
  SendBuffer take(std::size_t bytes);
  void give_back(SendBuffer buffer);

 private:
  std::mutex mutex_;
  std::vector<SendBuffer> small_;
  std::vector<SendBuffer> large_;
};

// "world/dp.0 all_reduce #12" (the sequence number), "world send to group rank 1 tag 7".
std::string call_place(const MpiGroup& group, CallKind kind, int peer, int tag);
bool is_message(CallKind kind);  // send or recv

class MpiExecution {
 public:
  // `tag` as matched by MPI. The call's buffers must live until advance() was true or abandon().
  MpiExecution(std::shared_ptr<MpiGroup> group, SendBuffers& buffers, const Call& call, int tag);
  ~MpiExecution();
  MpiExecution(const MpiExecution&) = delete;

  bool advance();  // true: complete. Throws Error
  void abandon();  // nothing writes to the caller's buffers any more; peers may get what was sent
  std::uint64_t bytes_sent() const { return bytes_sent_; }  // to other ranks, so far
  std::string place() const;

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    SendBuffer copy;        // of a send
    std::size_t bytes = 0;  // of a receive
    bool receives = false;
  };
  void post(const PlanStep& step);
  bool complete(Message& message);
  void end_receive(Message& message);

  const std::shared_ptr<MpiGroup> group_;
  SendBuffers& buffers_;
  const CallKind kind_;
  const int peer_;
  const ReduceOp op_;
  const Dtype dtype_;
  const int tag_;
  CallPlan plan_;
  std::vector<Message> messages_;
  std::size_t next_step_ = 0;
  std::size_t completed_ = 0;  // the first messages that are complete
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace shardproof
