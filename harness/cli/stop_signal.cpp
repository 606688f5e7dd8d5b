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
  sigaction(SIGHUP, nullptr, &hangup_);
  if (hangup_.sa_handler == SIG_IGN) return;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGHUP, &hangup_, nullptr);
}

const std::atomic<bool>& StopSignal::flag() const {
  return asked;
}

}  // namespace shardproof
