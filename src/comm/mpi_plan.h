// mpi_plan: what one rank does for one call, as data: messages to post, points to wait, local
// copies and reductions, in order. A pure function of the call, the rank, the group's size and the
// chunk size; mpi_execution carries it out. Needs no MPI.
// Every message between two ranks is planned by both in the same order, each at most `chunk` bytes;
// chunk c + 1 is under way while chunk c is added or passed on. Bytes sent: see mpi_communicator.h.
// Thread rule: pure.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace shardproof {

struct PlanStep {
  enum class Kind : std::uint8_t {
    send,    // `size` bytes from `from` to rank `peer`
    recv,    // `size` bytes from rank `peer` into `to`
    wait,    // until the first `size` messages of the plan are complete
    copy,    // `size` bytes from `from` into `to`
    reduce,  // `size` elements of inputs[first_input ... first_input + inputs) into `to`, in order
  };
  Kind kind = Kind::wait;
  int peer = -1;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t size = 0;
  std::size_t first_input = 0;
  std::size_t inputs = 0;
};

struct CallPlan {
  std::vector<PlanStep> steps;
  std::vector<const void*> inputs;
  std::unique_ptr<std::byte[]> scratch;  // what arrives to be added
  std::size_t messages = 0;
};

// The pipeline holds two chunks of every peer; 256 KiB keeps four ranks' in the second-level cache.
inline constexpr std::size_t plan_chunk_bytes = std::size_t{256} << 10;

// Precondition: validate(call, rank, size); chunk is a positive multiple of 8.
CallPlan make_plan(const Call& call, int rank, int size, std::size_t chunk = plan_chunk_bytes);

}  // namespace shardproof
