// process_start: a function that the loader calls before the constructors of shared libraries.
#include "harness/cli/process_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace shardproof {
namespace {

struct sigaction hangup_at_start;

// What is closed becomes a descriptor on which every use fails, as it would have.
void before_libraries() {
  sigaction(SIGHUP, nullptr, &hangup_at_start);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

__attribute__((section(".preinit_array"), used)) void (*const early)() = before_libraries;

}  // namespace

void take_signals_back() {
  sigaction(SIGHUP, &hangup_at_start, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace shardproof
