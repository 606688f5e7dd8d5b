// revokes_on_failure: a scope of an elastic run that an exception leaves revokes the groups of the
// rank before anything is destroyed: else what was started over one of them would be waited for
// while its peers wait elsewhere. Declared last in its scope. Thread rule: the rank's thread.
#pragma once

#include <exception>

#include "comm/communicator.h"

namespace shardproof {

class RevokesOnFailure {
 public:
  RevokesOnFailure(Communicator& comm, bool elastic) : comm_(comm), elastic_(elastic) {}
  ~RevokesOnFailure() {
    if (elastic_ && std::uncaught_exceptions() > before_) comm_.revoke();
  }
  RevokesOnFailure(const RevokesOnFailure&) = delete;

 private:
  Communicator& comm_;
  const bool elastic_;
  const int before_ = std::uncaught_exceptions();
};

}  // namespace shardproof
