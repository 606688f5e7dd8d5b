// mpi_queue: the communication thread of a process: carries out the calls that were started and not
// run, because MPI makes no progress without calls. Collectives of one group begin in start order,
// one after the other; messages begin at once, after earlier ones of the same peer and tag. Calls
// of different groups make progress together. A call has no deadline of its own: it ends when it is
// complete or when its group is broken.
// Thread rule: any thread. Internal to the MPI backend.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/mpi_execution.h"

namespace shardproof {

class MpiQueue {
 public:
  struct Item {
    std::shared_ptr<MpiGroup> group;
    Call call;
    Keep keep;
    int tag = 0;
    std::optional<MpiExecution> execution;  // begun
    Duration begun{};
    Duration next_check{};  // of the health of the group
    bool finished = false;  // guarded by the queue's mutex
    std::exception_ptr error;
  };

  ~MpiQueue();  // calls that are left fail: nobody waits for them any more

  std::shared_ptr<Item> push(std::shared_ptr<MpiGroup> group, const Call& call, Keep keep, int tag);
  // Throws what the call threw, or Error timeout (the group is poisoned).
  void wait(Item& item, Deadline deadline);
  void wait_finished(const Item& item);  // precondition: its group is poisoned or revoked
  bool finished(const Item& item) const;
  SendBuffers& buffers() { return buffers_; }
  // Until no call of the group is left. Precondition: the group is poisoned or revoked.
  void drain(const MpiGroup& group);

 private:
  void loop();
  bool advance_all();  // true: something moved
  bool may_begin(const Item& item) const;
  bool advance(Item& item);  // true: finished
  void finish(Item& item, std::exception_ptr error);

  SendBuffers buffers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Item>> items_;  // changed under the mutex, by push and the thread
  bool stop_ = false;
  std::thread thread_;  // started by the first push
};

}  // namespace shardproof
