// expect_error: for tests: `body` must throw an Error of a kind, whose text holds all the parts.
// error_of: that Error itself, for a closer look.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardproof {

template <typename Body>
Error error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::environment, "no Error", "was thrown");
}

template <typename Body>
void expect_error(ErrorKind kind, std::initializer_list<std::string_view> parts, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(name(error.kind()), name(kind)) << text;
    for (const std::string_view part : parts) {
      EXPECT_NE(text.find(part), text.npos) << "\"" << text << "\" lacks \"" << part << "\"";
    }
    return;
  }
  ADD_FAILURE() << "no Error was thrown; expected kind " << name(kind);
}

}  // namespace shardproof
