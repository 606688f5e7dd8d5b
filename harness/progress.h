// progress: what a user sees of a run while it goes on: on a terminal one line that is rewritten
// (step, loss, tokens/s, time left), else one line a step. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "train/metrics.h"
#include "train/trainer.h"

namespace shardproof {

// "step  7/20  loss 3.912345  grad_norm 1.2345  lr 1.0e-02  12.3k tokens/s"
std::string progress_line(const StepResult& result, const StepMetrics& metrics, std::int64_t steps);
std::string print_seconds(double seconds);  // "42 s", "3 min 05 s", "2 h 10 min"

class Progress {
 public:
  // `terminal`: rewrite one line. The time left is that of the mean step so far.
  Progress(std::FILE* out, bool terminal, std::int64_t steps, Clock& clock = Clock::real());
  void step(const StepResult& result, const StepMetrics& metrics);
  void finish();  // leaves the last line standing

 private:
  void write(const std::string& text);

  std::FILE* out_;
  bool terminal_;
  std::int64_t steps_;
  Clock& clock_;
  Duration start_;
  std::int64_t done_ = 0;
};

}  // namespace shardproof
