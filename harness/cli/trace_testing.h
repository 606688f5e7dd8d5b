// trace_testing: the verb `trace` in the process of a test, as main calls it. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/cli/cli.h"

namespace shardproof {

struct Ended {
  int code = -1;
  std::string output;
  std::string errors;
};

inline Ended trace(std::vector<std::string> arguments) {
  CLI::App app("test", "shardproof");
  Ended ended;
  add_trace(app, ended.code);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  arguments.push_back("trace");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    ended.code = app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "shardproof: %s\n", error.what());
    ended.code = exit_code(error.kind());
  }
  std::fflush(stdout);
  ended.output = testing::internal::GetCapturedStdout();
  ended.errors = testing::internal::GetCapturedStderr();
  return ended;
}

}  // namespace shardproof
