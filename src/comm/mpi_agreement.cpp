// mpi_agreement: two agreements of an int each, polled under the deadline.
#include "comm/mpi_agreement.h"

#include <memory>
#include <thread>

namespace shardproof {

namespace {

std::uint32_t agree_on_all_set(MpiGroup& group, std::uint32_t bits, Deadline deadline) {
  const std::string place = group.group().name + " agree";
  auto flags = std::make_unique<int>(static_cast<int>(bits));
  MPI_Request request = MPI_REQUEST_NULL;
  int code = start_agreement(group.comm(), flags.get(), &request);
  int done = 0;
  constexpr Duration patience = std::chrono::milliseconds(20);  // then it is no quick agreement
  const Duration begin = Clock::real().now();
  while (code == MPI_SUCCESS && done == 0) {
    code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || done != 0) break;
    if (deadline.expired()) {
      [[maybe_unused]] int* const in_use = flags.release();  // by the library, for good
      group.time_out();
      throw Error(ErrorKind::timeout, place, "not complete at its deadline");
    }
    if (Clock::real().now() - begin > patience) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    } else {
      std::this_thread::yield();
    }
  }
  // A dead member is reported alike on all ranks; what the living agreed on holds all the same.
  if (code != MPI_SUCCESS && !means_peer_died(code)) group.fail(code, place);
  return static_cast<std::uint32_t>(*flags);
}

}  // namespace

std::uint64_t agree_with_ulfm(MpiGroup& group, std::uint64_t flags, Deadline deadline) {
  std::uint64_t result = 0;
  for (const int shift : {0, 32}) {  // the library agrees on the bitwise and of an int
    const auto half = static_cast<std::uint32_t>(flags >> shift);
    const std::uint32_t clear = agree_on_all_set(group, ~half, deadline);
    result |= static_cast<std::uint64_t>(~clear) << shift;
  }
  return result;
}

}  // namespace shardproof
