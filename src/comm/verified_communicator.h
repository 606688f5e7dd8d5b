// verified_communicator: before the data of a call moves, all ranks of the group agree on the whole
// contract (see contract.h). When they do not, every rank of the group throws Error mismatch with
// the fields that differ and the ranks on each side, no buffer was written, and the group is
// revoked.
// - Agreement has its own way: memory that the ranks share, else a control communicator split from
//   the inner one. None of it is in traffic(), which counts the program's own calls; what the guard
//   did is in GuardCounters.
// - A started collective agrees, and then runs, on a thread of this communicator: in start order,
//   and nothing blocks the caller.
// - A message is preceded by an envelope, which its receiver compares before its buffer is written.
//   The sender hears of a mismatch from the wait it stands in, or at its next call: what a started
//   receive has taken lies apart until it is waited for. Where the ranks share no memory the sender
//   hears Error revoked, and only the receiver knows why.
// - Buffers of started operations are watched until they end (see buffers_in_flight.h).
// - Splits are agreed on as well.
// A rank that is missing is not a mismatch: the wait for it ends as communicator.h says.
// What is asked of the inner communicator: that collectives and messages may come from two threads
// at once (each kind from one at a time). Both backends give that.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "comm/buffers_in_flight.h"
#include "comm/comm_thread.h"
#include "comm/contract_agreement.h"
#include "comm/forwarding_communicator.h"

namespace shardproof {

// Shared by all communicators of one rank.
struct VerifyOptions {
  std::shared_ptr<GuardCounters> counters = std::make_shared<GuardCounters>();
  std::shared_ptr<BuffersInFlight> buffers = std::make_shared<BuffersInFlight>();
  AgreementWay way = AgreementWay::shared_memory;  // where the ranks can
};

class VerifiedCommunicator : public ForwardingCommunicator {
 public:
  // Collective over the ranks of `inner`.
  VerifiedCommunicator(std::unique_ptr<Communicator> inner, VerifyOptions options);
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& label,
                                      Deadline deadline) override;
  void abort() override;
  AgreementWay way() const { return agreement_->way(); }

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  class Message;
  void after_started_calls(const Deadline& deadline);
  void agree(const Proposal& proposal, const Deadline& deadline);
  void run_message(const Call& call, const Deadline& deadline);
  std::unique_ptr<Work> start_message(const Call& call, Keep keep);
  Envelope next_envelope(const Call& call);
  // Throws what the envelopes' difference means; tells the sender.
  void compare(const Call& call, const Envelope& sent, const Envelope& expected,
               const std::string& place);
  // `action`, with a notice of the group put in the place of Error revoked.
  template <typename Action>
  void explained(const Action& action);
  template <typename Action>
  auto told_to_all(const Action& action);
  void check_buffers(const Call& call, const std::function<std::string()>& place);
  std::unique_ptr<BuffersInFlight::Flight> board(const Call& call, const std::string& place);
  std::string place_of_message(const Call& call) const;

  const VerifyOptions options_;
  const std::unique_ptr<Communicator> control_;  // null for a group of one
  std::unique_ptr<ContractAgreement> agreement_;
  std::uint64_t collectives_ = 0;
  std::map<std::tuple<CallKind, int, int>, std::uint64_t> messages_;  // by direction, peer, tag
  CommThread thread_;  // last: ends first, its tasks use the members above
};

}  // namespace shardproof
