// error_of: the Error that `act` must throw. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace shardproof {

template <typename Act>
Error error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::environment, "no Error", "was thrown");
}

}  // namespace shardproof
