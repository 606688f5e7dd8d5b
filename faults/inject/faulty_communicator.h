// faulty_communicator: two decorators. The outer one makes the calls a wrong program would make,
// and is where a rank dies, stops or is late before, inside and after a call. The one on the wire,
// below the guards, flips bits of what is sent and received. Both count every call of their group.
// A call is "inside" when it has been started and is not waited for.
// Thread rule: as a communicator.
#pragma once

#include <map>
#include <memory>

#include "comm/forwarding_communicator.h"
#include "faults/inject/injector.h"

namespace shardproof {

// The groups of a rank as the outer decorators know them: a call may go to the wrong one.
struct RankGroups {
  std::mutex mutex;
  std::map<std::string, Communicator*> inner;
};

class FaultyCommunicator : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Injector> injector,
                     std::shared_ptr<RankGroups> groups);
  ~FaultyCommunicator() override;
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  Passing begin(const Call& call, const char* how);
  struct Changed {
    std::optional<Call> call;  // none: it is skipped
    Keep copy;                 // of what it sends
  };
  // What is to be called in place of `call`, after calls that come before it.
  Changed changed(const Call& call, const std::vector<Fault>& faults, Deadline deadline);
  Communicator* another_group() const;  // of several ranks; null: the rank has no other
  void call_elsewhere(const Call& call, Deadline deadline);

  std::shared_ptr<Injector> injector_;
  std::shared_ptr<RankGroups> groups_;
  std::vector<Call> seen_;  // one of each contract, the newest last; no buffers
};

class FaultyWire : public ForwardingCommunicator {
 public:
  FaultyWire(std::unique_ptr<Communicator> inner, std::shared_ptr<Injector> injector);
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  std::shared_ptr<Injector> injector_;
};

// Whether a fault of this kind can happen in such a call at all: what a discovery asks.
bool can_happen(FaultKind kind, const Call& call, int rank, int size);

}  // namespace shardproof
