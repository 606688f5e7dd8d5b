// attempt_history: rules over attempts, and their texts.
#include "harness/attempt_history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace shardproof {
namespace {

bool ends_the_same_way(ErrorKind kind) {
  return kind == ErrorKind::bad_input || kind == ErrorKind::environment ||
         kind == ErrorKind::refused || kind == ErrorKind::conflict;
}

// Bits repeat: a number that went wrong on the way from a state, and again at the same place, is no
// fault of a machine.
bool is_runs_own(const AttemptHistory& history) {
  const Attempt& last = history.back();
  if (last.error.kind() != ErrorKind::numeric || began_wrong(history)) return false;
  return std::any_of(history.begin(), history.end() - 1, [&](const Attempt& other) {
    return other.error.kind() == ErrorKind::numeric && other.error.place() == last.error.place();
  });
}

}  // namespace

std::string Attempt::text() const {
  return fmt::format("on {} from {}, {} steps in {:.1f} s: {}", layout,
                     from.empty() ? "the beginning" : from, steps, seconds, error.what());
}

Json Attempt::to_json() const {
  return {{"layout", layout},
          {"from", from},
          {"steps", steps},
          {"seconds", seconds},
          {"error_kind", std::string(name(error.kind()))},
          {"error", error.what()},
          {"rank", error.world_rank()}};
}

std::string reason_to_give_up(const AttemptHistory& history, int restarts) {
  const Attempt& last = history.back();
  const auto done = static_cast<int>(history.size()) - 1;
  const bool chosen = done == 0 && last.steps == 0 && last.error.kind() == ErrorKind::corrupt;
  if (chosen || ends_the_same_way(last.error.kind())) {
    return fmt::format("not tried again after {} restarts", done);
  }
  if (is_runs_own(history)) return "the same number went wrong again: it is the run's own";
  if (done < restarts) return "";
  return fmt::format("given up after {} restarts (run.restarts)", done);
}

bool rank_is_gone(const AttemptHistory& history, bool elastic) {
  const Attempt& last = history.back();
  if (!last.died() || elastic) return last.died();
  if (history.size() < 2 || last.steps > 0) return false;
  const Attempt& before = history[history.size() - 2];
  return before.died() && before.layout == last.layout &&
         before.error.world_rank() == last.error.world_rank();
}

bool began_wrong(const AttemptHistory& history) {
  const Attempt& last = history.back();
  return last.error.kind() == ErrorKind::numeric && last.steps == 0 && !last.from.empty() &&
         history.size() > 1;
}

Error given_up(const AttemptHistory& history, const std::string& why) {
  const Error& last = history.back().error;
  if (history.size() == 1) return last;
  std::vector<std::string> texts;
  for (const Attempt& each : history) {
    texts.push_back(fmt::format("attempt {} {}", texts.size() + 1, each.text()));
  }
  return Error(last.kind(), last.place(),
               fmt::format("{}; {}: {}", last.detail(), why, fmt::join(texts, "; ")),
               last.world_rank());
}

}  // namespace shardproof
