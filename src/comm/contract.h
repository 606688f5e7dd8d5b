// contract: all that the ranks of a group must have in common when they make a call: number in the
// group, operation, dtype, reduce op, count, root and every split; of a split of the group, its
// label; of a message, number, count and dtype. One list of fields makes both the fingerprint that
// is compared before every call and the text that is compared when fingerprints differ: a field
// that is missing from one is missing from the other.
// Not covered: the group itself (ranks of one group agree over a way of their own), buffers, and
// two 64-bit hashes that collide. Thread rule: pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "comm/communicator.h"

namespace shardproof {

// What a rank brings to an agreement: a call, or a split of the group.
struct Proposal {
  std::uint64_t sequence = 0;
  const Call* call = nullptr;  // null: a split
  std::string_view label{};    // of a split
  int rank = 0;                // of the group
};

// `same` must be equal on all ranks. all_to_all: what rank i sends to j and what j expects from i
// enter `balance` with opposite signs, so that the sum over all ranks is 0 when they match.
struct Fingerprint {
  std::uint64_t same = 0;
  std::uint64_t balance = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint_of(const Proposal& proposal);

// The fields in words, and the splits of an all_to_all.
struct Contract {
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::uint64_t> sends;     // to each rank
  std::vector<std::uint64_t> receives;  // from each rank
};
Contract contract_of(const Proposal& proposal);
std::string to_text(const Contract& contract);
Contract contract_from_text(const std::string& text, const std::string& place);  // Error corrupt

// "dtype: F32 on ranks 0,1,3; F64 on rank 2, split of rank 0: ..."; "" when the contracts agree.
// By group rank; `world_ranks` says how ranks are called.
std::string differences(const std::vector<Contract>& contracts,
                        const std::vector<int>& world_ranks);

// What is sent ahead of a message's data, and compared by its receiver.
struct Envelope {
  std::uint64_t sequence = 0;  // per sender, receiver and tag
  std::uint64_t count = 0;
  std::int64_t dtype = 0;
  std::int64_t tag = 0;
};
Envelope envelope_of(const Call& call, std::uint64_t sequence);
// "count: 8 on rank 0; 9 on rank 1"; "" when they agree.
std::string differences(const Envelope& sent, int sender, const Envelope& expected, int receiver);

}  // namespace shardproof
