// command: see the header.
#include "harness/sweep/command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "harness/process_tree.h"

namespace shardproof {
namespace {

constexpr std::size_t kept_output = 64 << 10;

// False at end of file.
bool take_output(int fd, std::string& output) {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    output.append(buffer.data(), static_cast<std::size_t>(got));
    if (output.size() > 2 * kept_output) output.erase(0, output.size() - kept_output);
  }
}

}  // namespace

CommandResult run_command(const CommandLine& line, Duration deadline,
                          const std::function<bool()>& stop) {
  std::vector<std::string> words{"/usr/bin/env"};
  words.insert(words.end(), line.words.begin(), line.words.end());
  CommandResult result;
  ProcessTree tree(words, line.environment, line.grace);
  const Deadline end = Deadline::after(deadline);
  bool open = true;
  bool killing = false;
  while (!tree.ended()) {
    if (open) open = take_output(tree.output(), result.output);
    if (!killing) {
      result.stopped = stop && stop();
      result.timed_out = !result.stopped && end.expired();
      killing = result.stopped || result.timed_out;
      if (killing) tree.kill_all();
    }
    std::array<pollfd, 2> ready{{{.fd = open ? tree.output() : -1, .events = POLLIN, .revents = 0},
                                 {.fd = tree.fd(), .events = POLLIN, .revents = 0}}};
    ::poll(ready.data(), ready.size(), 5);
  }
  if (open) take_output(tree.output(), result.output);
  if (result.output.size() > kept_output) {
    result.output.erase(0, result.output.size() - kept_output);
  }
  result.left = tree.killed();
  result.exit_code = tree.exit_code().value_or(-1);
  return result;
}

}  // namespace shardproof
