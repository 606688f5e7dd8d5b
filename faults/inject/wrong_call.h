// wrong_call: the call that a wrong program would make in place of a right one: another dtype,
// count, split, op, root or tag. Never reads or writes beyond the right call's buffers. Pure.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "faults/inject/fault_kind.h"

namespace shardproof {

// The call as `rank` of `size` would make it wrongly; nothing where this kind cannot be wrong in
// such a call (a barrier has no dtype).
std::optional<Call> wrong_call(FaultKind kind, const Call& call, int rank, int size);

// Memory that stands for a call's buffers: the call with buffers of its own, zeroed, and what keeps
// them.
struct ScratchCall {
  Call call;
  std::shared_ptr<std::vector<std::byte>> send;
  std::shared_ptr<std::vector<std::byte>> recv;
};
ScratchCall on_scratch(const Call& call, int rank);

// Whether two calls are the same for those who make them together.
bool same_contract(const Call& a, const Call& b);

// Flips bit `bit` (0 to 31) of the 32-bit word in the middle of `bytes` bytes; of fewer, of the
// last byte. Precondition: bytes > 0.
void flip_bit(void* data, std::size_t bytes, int bit);

}  // namespace shardproof
