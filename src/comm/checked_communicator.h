// checked_communicator: a checksum on the wire. Whoever sends also sends a 64-bit checksum of what
// it gave (base/checksum.h), on a group of its own beside the checked one; whoever receives
// compares. Compared: all that broadcast, all_gather, all_to_all and messages move; sums of
// integers (their linear checksums add up); other reductions of integers, and maxima and minima, of
// up to 16 KiB (done again from what every rank gave). NOT compared: sums of floats by the backend
// (canonical reductions make none) and larger reductions. Error corrupt names sender, receiver,
// group and the call's number in it (of its kind of call: collectives of a group count together,
// messages by peer and tag). It is thrown by the receiver that found it, after the call has
// completed; what was received is then not to be used. Costs a small call beside every call. Its
// calls are made below the recorder and are no part of this communicator's traffic. Thread rule: as
// forwarding_communicator.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "comm/forwarding_communicator.h"

namespace shardproof {

class CheckedCommunicator : public ForwardingCommunicator {
 public:
  // `sums`: the same ranks in the same order.
  CheckedCommunicator(std::unique_ptr<Communicator> inner, std::unique_ptr<Communicator> sums);
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  void revoke() override;
  void abort() override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  class Check;
  std::shared_ptr<Check> check_of(const Call& call);  // null: nothing to compare

  const std::unique_ptr<Communicator> sums_;
  std::map<std::tuple<CallKind, int, int>, std::uint64_t> next_;  // by kind of call, peer and tag
};

// Collective: splits the group for the checksums.
std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> inner);

}  // namespace shardproof
