// say: stdio keeps that a stream has failed, but not why.
#include "harness/say.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace shardproof {
namespace {

std::atomic<int> why{0};  // the first failure of stdout

void keep_reason() {
  int none = 0;
  why.compare_exchange_strong(none, errno);
}

}  // namespace

void say(const std::string& text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!whole || std::fflush(stdout) != 0) keep_reason();
}

int finish_output(int exit_code) {
  if (std::fflush(stdout) != 0) keep_reason();
  if (why == 0 && std::ferror(stdout) == 0) return exit_code;
  std::fprintf(stderr, "shardproof: environment: standard output: not all was written%s%s\n",
               why == 0 ? "" : ": ", why == 0 ? "" : std::strerror(why));
  return exit_code == 0 ? shardproof::exit_code(ErrorKind::environment) : exit_code;
}

}  // namespace shardproof
