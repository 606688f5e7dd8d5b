// ladder: the climb.
#include "harness/ladder.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"

namespace shardproof {
namespace {

Verdict judged(const Rung& rung) {
  Verdict verdict;
  try {
    verdict = rung.judge();
  } catch (const Error& error) {
    const bool lacking = exit_code(error.kind()) == exit_code(ErrorKind::environment);
    verdict.outcome = lacking ? Outcome::inconclusive : Outcome::fail;
    verdict.reason = error.what();
  }
  return verdict;
}

ClimbedRung climb_one(const Rung& rung) {
  ClimbedRung out;
  out.reached = true;
  const Duration begun = Clock::real().now();
  out.verdict = judged(rung);
  out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  return out;
}

ClimbedRung not_reached(const std::string& failed) {
  ClimbedRung out;
  out.verdict.reason = fmt::format("not reached: \"{}\" failed", failed);
  return out;
}

}  // namespace

std::string_view word(const ClimbedRung& rung) {
  if (!rung.reached) return "not reached";
  return rung.verdict.outcome == Outcome::inconclusive ? "not verified"
                                                       : name(rung.verdict.outcome);
}

Climb climb(const std::vector<Rung>& rungs, const ClimbOptions& options) {
  Climb out;
  std::string failed;
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const Rung& rung = rungs[i];
    const int number = static_cast<int>(i) + 1;
    if (options.only != 0 && options.only != number) continue;
    ClimbedRung climbed = failed.empty() ? climb_one(rung) : not_reached(failed);
    if (options.stop != nullptr && options.stop->load()) {
      out.interrupted = true;
      return out;
    }
    climbed.number = number;
    Verdict& verdict = climbed.verdict;
    verdict.check = rung.name;
    verdict.sentence = rung.compared;
    if (verdict.outcome == Outcome::fail) {
      failed = rung.name;
      if (verdict.replay.empty() && options.replay) verdict.replay = options.replay(number);
    }
    if (options.ended) options.ended(climbed);
    out.rungs.push_back(std::move(climbed));
  }
  return out;
}

}  // namespace shardproof
