// stop_signal: Ctrl-C sets a flag that the step looks at.
#include "harness/cli/stop_signal.h"

namespace shardproof {
namespace {

std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void ask(int) {
  asked = true;
}

}  // namespace

StopSignal::StopSignal() {
  asked = false;
  struct sigaction action {};
  action.sa_handler = ask;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

const std::atomic<bool>& StopSignal::flag() const {
  return asked;
}

}  // namespace shardproof
