// forwarding_communicator: the base of all decorators: forwards everything to an inner communicator
// that it owns. A decorator overrides run and start, and rewrap (so that split and shrink re-apply
// it to the child).
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace shardproof {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner);

  int rank() const override;
  int size() const override;
  const Group& group() const override;
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                      Deadline deadline) override;
  void revoke() override;
  void abort() override;
  bool poisoned() const override;
  std::vector<int> failed_ranks() const override;
  std::uint64_t agree(std::uint64_t flags, Deadline deadline) override;
  std::unique_ptr<Communicator> shrink(const std::string& label, Deadline deadline) override;
  Traffic traffic() const override;
  Duration timeout() const override;

 protected:
  // Puts this decorator around a child of the inner communicator.
  virtual std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) = 0;
  Communicator& inner() { return *inner_; }
  const Communicator& inner() const { return *inner_; }

 private:
  std::unique_ptr<Communicator> inner_;
};

}  // namespace shardproof
