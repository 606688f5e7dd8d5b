// vote: values that should be equal, by the rank that has them; who is the odd one out. With a
// strict majority those outside it are named, else all sides are. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

struct Ballot {
  int rank = 0;  // of the world
  std::string value;
};

struct Vote {
  bool unanimous = true;
  bool decided = false;  // a strict majority agrees
  std::vector<int> odd;  // outside the majority, ascending; undecided: all that voted
  std::string sentence;  // "rank 1 is the odd one out: ..."; empty when unanimous
};
Vote vote(const std::vector<Ballot>& ballots);

// "rank 2", "ranks 0, 3".
std::string print_ranks(const std::vector<int>& ranks);

}  // namespace shardproof
