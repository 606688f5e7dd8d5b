// agreement: a step that every rank takes by itself and that succeeds on all of them or on none. A
// failure on one rank is thrown on every rank, with the kind, place and detail it had there.
// Collective. Thread rule: the rank's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace shardproof {

// Thrown after all ranks have finished the step: nobody is at work any more. (An Error of the
// communicator itself is thrown as it is: what the others did is then not known.)
class AgreedError : public Error {
 public:
  using Error::Error;
};

// Runs `step` (no communication inside) and returns what it returned on every rank, in rank order.
std::vector<std::string> agreed(Communicator& comm, const std::function<std::string()>& step);

}  // namespace shardproof
