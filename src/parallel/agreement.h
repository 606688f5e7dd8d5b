// agreement: facts on which all ranks must agree before the first step (digests of the config, the
// data, the tokenizer, the initial parameters; the world size). A difference found here costs a
// line; found later it is a hang or a wrong result. Thread rule: the rank's thread.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace shardproof {

struct Fact {
  std::string name;
  std::string value;
};

// Collective. Error mismatch, the same on every rank, naming the first fact and rank whose value is
// not that of most ranks (of the lowest rank on a tie), and both values.
void agree_on(Communicator& comm, const std::vector<Fact>& facts);

}  // namespace shardproof
