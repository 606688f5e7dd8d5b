// progress: a line a step.
#include "harness/progress.h"

#include <fmt/format.h>

#include <cmath>

namespace shardproof {

std::string print_seconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string progress_line(const StepResult& result, const StepMetrics& metrics,
                          std::int64_t steps) {
  return fmt::format("step {:>4}/{}  loss {:.6f}  grad_norm {:.4f}  lr {:.1e}  {:.1f}k tokens/s",
                     result.step, steps, result.loss, result.grad_norm, result.lr,
                     metrics.tokens_per_second() / 1000);
}

Progress::Progress(std::FILE* out, bool terminal, std::int64_t steps, Clock& clock)
    : out_(out), terminal_(terminal), steps_(steps), clock_(clock), start_(clock.now()) {}

void Progress::step(const StepResult& result, const StepMetrics& metrics) {
  const std::string line = progress_line(result, metrics, steps_);
  ++done_;
  if (terminal_) {
    const double spent = std::chrono::duration<double>(clock_.now() - start_).count();
    const std::int64_t left = steps_ - result.step - 1;
    const double seconds = spent / static_cast<double>(done_) * static_cast<double>(left);
    write(fmt::format("\r\033[K{}  {} left", line, print_seconds(seconds)));
  } else {
    write(line + "\n");
  }
}

// A screen that cannot be written stops no run (see say.h).
void Progress::write(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void Progress::finish() {
  if (terminal_ && done_ > 0) write("\n");
}

}  // namespace shardproof
