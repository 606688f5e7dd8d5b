// check: the end of a process that has found its own bug.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace shardproof {

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  // One call, so that the lines of several ranks do not mix.
  std::fprintf(stderr, "check failed: %s (%s) at %s:%d\n", expression, values.c_str(), file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace shardproof
