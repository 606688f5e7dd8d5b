// agreement: facts on which all ranks must agree before the first step (the keys of the config,
// digests of the data, the tokenizer, the initial parameters; the world size). A difference found
// here costs a line; found later it is a hang or a wrong result. Thread rule: the rank's thread.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace shardproof {

struct Fact {
  std::string name;
  std::string value;
};

// Collective. Error mismatch, the same on every rank, naming the first fact on which ranks differ,
// every value of it and the ranks that have it. Its rank is the first one whose value is not that
// of most ranks (of the lowest rank on a tie).
void agree_on(Communicator& comm, const std::vector<Fact>& facts);

}  // namespace shardproof
