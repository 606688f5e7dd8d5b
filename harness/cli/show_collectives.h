// show_collectives: every operation of a communicator, really run on thread ranks, with what each
// rank holds before and after it. Numbers are small so that sums can be checked by eye.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardproof {

struct ShownRank {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
  std::uint64_t bytes_sent = 0;  // as the backend counted
};

struct ShownOperation {
  std::string name;
  std::string sentence;
  std::vector<ShownRank> ranks;
};

std::vector<ShownOperation> run_collectives(int ranks);

}  // namespace shardproof
