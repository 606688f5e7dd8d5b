// agreement_board: memory that all ranks of a group share, threads and processes of one machine
// alike: each writes its fingerprint, waits for all, and reads all. One round whatever the size of
// the group. It also holds one notice: why the group was given up, for ranks that are not in the
// operation where it was found. The memory is an unnamed file, which ends with its last user.
// Rounds are numbered from 1, the same on all ranks; no rank is more than one round ahead, so two
// places a rank suffice. Thread rule: one thread at a time a rank calls arrive; notice functions
// may be called from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/contract.h"

namespace shardproof {

class AgreementBoard {
 public:
  // Collective over `control`. Null on all ranks when they cannot share memory.
  static std::shared_ptr<AgreementBoard> share(Communicator& control, Deadline deadline);
  ~AgreementBoard();
  AgreementBoard(const AgreementBoard&) = delete;

  // True when all ranks brought the same contract. `healthy` is called while waiting, at most once
  // a millisecond, and throws when the group is broken. Throws Error timeout with `place`.
  bool agree(int rank, std::uint64_t round, const Fingerprint& mine, const Deadline& deadline,
             const std::function<void()>& healthy, const std::function<std::string()>& place);
  // Ranks that have not come to the round.
  std::vector<int> missing(std::uint64_t round) const;

  void give_notice(const std::string& text);  // the first one stays; cut at its room
  std::optional<std::string> notice() const;

 private:
  struct Memory;
  struct Slot;
  AgreementBoard(void* memory, std::size_t bytes, int size);
  static std::size_t bytes_for(int size);
  Memory& memory() const;
  Slot& slot(int rank) const;

  void* const memory_;
  const std::size_t bytes_;
  const int size_;
};

}  // namespace shardproof
