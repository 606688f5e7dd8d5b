// rank_guards: from a config to decorators.
#include "harness/rank_guards.h"

#include <cstdio>

namespace shardproof {

namespace {

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

WatchLimits watch_limits(const Config& config) {
  return {duration_of(config.guard.look_seconds), duration_of(config.guard.stall_seconds)};
}

void print_note(const std::string& text) {
  std::fprintf(stderr, "shardproof: %s\n", text.c_str());
}

RankGuards::RankGuards(const Config& config, int rank, bool recorded, Watchdog* watchdog)
    : watchdog_(config.guard.watch ? watchdog : nullptr), comes_again_(config.run.elastic) {
  if (recorded || config.guard.watch) recorder_ = std::make_shared<FlightRecorder>(rank);
  if (config.guard.verify) verify_.emplace();
  if (watchdog_ == nullptr) return;
  watch_ = std::make_shared<RankWatch>(recorder_, watchdog_->limits().look);
  watchdog_->join(watch_);
}

RankGuards::~RankGuards() {
  if (watch_ == nullptr) return;
  if (comes_again_) {
    watchdog_->forget(*watch_);
  } else {
    watchdog_->leave(*watch_);
  }
}

void RankGuards::put_into(StackOptions& options) const {
  options.recorder = recorder_;
  options.watch = watch_;
  options.verify = verify_;
}

Json RankGuards::counts() const {
  if (!verify_) return Json::object();
  const GuardCounters& counters = *verify_->counters;
  return {{"agreements", counters.agreements.load()},
          {"rounds", counters.rounds.load()},
          {"envelopes", counters.envelopes.load()},
          {"bytes", counters.bytes.load()}};
}

void PlaceHooks::entering(std::int64_t step, Phase phase) {
  if (recorder_ != nullptr) {
    recorder_->enter({step, static_cast<int>(phase), std::string(name(phase))});
  }
  inner_.entering(step, phase);
}

void PlaceHooks::phase(std::int64_t step, Phase phase, Plan& plan) {
  inner_.phase(step, phase, plan);
}

}  // namespace shardproof
