// contract_agreement: the ranks of a group agree on a contract before a call: over memory that they
// share where they can (one round), else by messages of 24 bytes, doubling the distance (at most
// 2 * ceil(log2 P) rounds). Only when they disagree are the contracts themselves gathered.
// Thread rule: one thread at a time; notice functions: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comm/agreement_board.h"
#include "comm/communicator.h"
#include "comm/contract.h"

namespace shardproof {

// What the guard of one rank did, over all its groups. Thread rule: any thread.
struct GuardCounters {
  std::atomic<std::uint64_t> agreements{0};
  std::atomic<std::uint64_t> rounds{0};  // waits for other ranks
  std::atomic<std::uint64_t> envelopes{0};
  std::atomic<std::uint64_t> bytes{0};  // sent for agreements and envelopes
  std::atomic<Duration::rep> time{0};   // in agreements
};

enum class AgreementWay { shared_memory, messages };

class ContractAgreement {
 public:
  // Collective over `control`, a communicator of the same ranks that nothing else uses for
  // collectives and messages of `tag`. `shared_memory`: where the ranks can.
  ContractAgreement(Communicator& control, AgreementWay preferred,
                    std::shared_ptr<GuardCounters> counters);

  // Returns when all ranks brought the same contract. Error mismatch on every rank otherwise: the
  // fields that differ and the ranks on each side. `group` is the one whose health counts while
  // waiting: Error peer_died, revoked, timeout.
  void agree(const Proposal& proposal, Communicator& group, const Deadline& deadline);

  AgreementWay way() const { return board_ ? AgreementWay::shared_memory : AgreementWay::messages; }
  // Why the group was given up, for ranks that find it broken.
  void give_notice(const std::string& text);
  std::optional<std::string> notice() const;  // where memory is shared

 private:
  bool agree_by_messages(const Fingerprint& mine, const Deadline& deadline);

  Communicator& control_;
  const std::shared_ptr<GuardCounters> counters_;
  std::shared_ptr<AgreementBoard> board_;
  std::uint64_t rounds_ = 0;
};

// "world all_reduce #12".
std::string place_of(const Communicator& group, const Proposal& proposal);
// Error peer_died or revoked when the group is broken.
void check_health(const Communicator& group, const std::string& place);

}  // namespace shardproof
