// contract_agreement: comparing, and what is said when ranks disagree.
#include "comm/contract_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace shardproof {

namespace {

constexpr int exchange_tag = (1 << 20) - 1;  // the guard's own

// What the ranks of a subset brought, as one value.
struct Combined {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::uint64_t balance = 0;

  void add(const Combined& other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
    balance += other.balance;
  }
};

int world_rank(const Communicator& group, int rank) {
  return group.group().world_ranks[static_cast<std::size_t>(rank)];
}

Call message(CallKind kind, Combined& data, int peer) {
  Call call;
  call.kind = kind;
  call.dtype = Dtype::u8;
  call.send = &data;
  call.recv = &data;
  call.count = sizeof data;
  call.peer = peer;
  call.tag = exchange_tag;
  return call;
}

}  // namespace

std::string place_of(const Communicator& group, const Proposal& proposal) {
  const std::string_view what = proposal.call == nullptr ? "split" : name(proposal.call->kind);
  return fmt::format("{} {} #{}", group.group().name, what, proposal.sequence);
}

void check_health(const Communicator& group, const std::string& place) {
  if (!group.poisoned()) return;
  if (const auto failed = group.failed_ranks(); !failed.empty()) {
    const int dead = world_rank(group, failed.front());
    throw Error(ErrorKind::peer_died, place, fmt::format("world rank {} died", dead), dead);
  }
  throw Error(ErrorKind::revoked, place, "the group was revoked or poisoned",
              world_rank(group, group.rank()));
}

ContractAgreement::ContractAgreement(Communicator& control, AgreementWay preferred,
                                     std::shared_ptr<GuardCounters> counters)
    : control_(control), counters_(std::move(counters)) {
  SP_CHECK(counters_ != nullptr, "a guard counts what it does");
  if (preferred == AgreementWay::shared_memory) {
    board_ = AgreementBoard::share(control_, default_deadline(control_));
  }
}

void ContractAgreement::agree(const Proposal& proposal, Communicator& group,
                              const Deadline& deadline) {
  const Duration begin = Clock::real().now();
  const Fingerprint mine = fingerprint_of(proposal);
  const auto place = [&] { return place_of(group, proposal); };
  ++counters_->agreements;
  bool agreed = false;
  if (board_ != nullptr) {
    ++counters_->rounds;
    agreed = board_->agree(
        group.rank(), ++rounds_, mine, deadline, [&] { check_health(group, place()); }, place);
  } else {
    check_health(group, place());
    agreed = agree_by_messages(mine, deadline);
  }
  counters_->time += (Clock::real().now() - begin).count();
  if (agreed) return;
  std::vector<Contract> contracts;
  for (const std::string& text : all_gather_text(control_, to_text(contract_of(proposal)))) {
    contracts.push_back(contract_from_text(text, place()));
  }
  const std::string found = differences(contracts, group.group().world_ranks);
  const bool one_operation = std::all_of(contracts.begin(), contracts.end(), [&](const auto& each) {
    return each.fields.size() > 1 && each.fields[1] == contracts.front().fields[1];
  });
  throw Error(
      ErrorKind::mismatch,
      one_operation ? place() : fmt::format("{} #{}", group.group().name, proposal.sequence),
      found.empty() ? "the ranks' calls differ in what no field says" : found,
      world_rank(group, group.rank()));
}

// Ranks beyond the largest power of two bring theirs to a partner below it first, and hear from it
// last. The lower of two partners sends first: nobody needs a thread for it.
bool ContractAgreement::agree_by_messages(const Fingerprint& mine, const Deadline& deadline) {
  Combined all{mine.same, mine.same, mine.balance};
  const int rank = control_.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(control_.size())));
  const auto send = [&](int peer) {
    control_.run(message(CallKind::send, all, peer), deadline);
    counters_->bytes += sizeof all;
  };
  const auto receive = [&](int peer) {
    Combined theirs;
    control_.run(message(CallKind::recv, theirs, peer), deadline);
    return theirs;
  };
  if (rank >= power) {
    counters_->rounds += 2;
    send(rank - power);
    all = receive(rank - power);
  } else {
    const bool has_partner = rank + power < control_.size();
    if (has_partner) {
      ++counters_->rounds;
      all.add(receive(rank + power));
    }
    for (int distance = 1; distance < power; distance *= 2) {
      ++counters_->rounds;
      const int peer = rank ^ distance;
      if (rank < peer) {
        send(peer);
        all.add(receive(peer));
      } else {
        const Combined theirs = receive(peer);
        send(peer);
        all.add(theirs);
      }
    }
    if (has_partner) {
      ++counters_->rounds;
      send(rank + power);
    }
  }
  return all.low == all.high && all.balance == 0;
}

void ContractAgreement::give_notice(const std::string& text) {
  if (board_ != nullptr) board_->give_notice(text);
}

std::optional<std::string> ContractAgreement::notice() const {
  return board_ == nullptr ? std::nullopt : board_->notice();
}

}  // namespace shardproof
