// watched_communicator: lets the waits of a rank be ended with a verdict. Somebody else looks into
// a wait that lasts (see watchdog.h): when what it waits for can be named, the rank's groups are
// revoked, and this decorator puts the verdict in the place of Error revoked. It stands inside the
// recorder, which says who stands where.
#pragma once

#include <memory>

#include "comm/forwarding_communicator.h"
#include "comm/rank_watch.h"

namespace shardproof {

class WatchedCommunicator : public ForwardingCommunicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<RankWatch> watch);
  ~WatchedCommunicator() override;
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                      Deadline deadline) override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  const std::shared_ptr<RankWatch> watch_;
};

}  // namespace shardproof
