// rank_guards: the guards of one rank of a run, as its config asks for them: the recorder that is
// always needed by them, the watch, what is verified, and the hooks that tell where the program is.
// Thread rule: the rank's thread; the watchdog looks in from its own.
#pragma once

#include <memory>
#include <string>

#include "comm/stack.h"
#include "comm/watchdog.h"
#include "train/config.h"
#include "train/hooks.h"

namespace shardproof {

WatchLimits watch_limits(const Config& config);
void print_note(const std::string& text);  // of a slow rank: one line on stderr

class RankGuards {
 public:
  // `watchdog` may be null: then nothing is watched. It must outlive the guards. `rank` is that of
  // the world in which the job began.
  RankGuards(const Config& config, int rank, bool recorded, Watchdog* watchdog);
  ~RankGuards();
  RankGuards(const RankGuards&) = delete;

  void put_into(StackOptions& options) const;
  // Null where nothing is recorded.
  const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }
  Json counts() const;  // what was agreed on, apart from the program's own traffic

 private:
  std::shared_ptr<FlightRecorder> recorder_;
  std::shared_ptr<RankWatch> watch_;
  std::optional<VerifyOptions> verify_;
  Watchdog* const watchdog_;
  const bool comes_again_;  // in an elastic run
};

// Tells a recorder where the program is, then hands on.
class PlaceHooks : public Hooks {
 public:
  PlaceHooks(std::shared_ptr<FlightRecorder> recorder, Hooks& inner)
      : recorder_(std::move(recorder)), inner_(inner) {}
  void begin(Plan& plan) override { inner_.begin(plan); }
  void entering(std::int64_t step, Phase phase) override;
  void phase(std::int64_t step, Phase phase, Plan& plan) override;
  double learning_rate(std::int64_t step, double rate) override {
    return inner_.learning_rate(step, rate);
  }

 private:
  const std::shared_ptr<FlightRecorder> recorder_;  // null: nothing is told
  Hooks& inner_;
};

}  // namespace shardproof
