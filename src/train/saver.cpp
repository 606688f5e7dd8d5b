// saver: see saver.h.
#include "train/saver.h"

#include <chrono>
#include <utility>

namespace shardproof {
namespace {

// At most what a Duration holds.
Duration minutes(double count) {
  using Minutes = std::chrono::duration<double, std::ratio<60>>;
  if (Minutes(count) >= std::chrono::duration_cast<Minutes>(Duration::max())) {
    return Duration::max();
  }
  return std::chrono::duration_cast<Duration>(Minutes(count));
}

}  // namespace

SaveInterval interval_of(const CheckpointSection& section) {
  return {section.every, minutes(section.every_minutes), minutes(section.mtbf_minutes)};
}

Retention retention_of(const CheckpointSection& section) {
  return {section.keep_last, section.keep_every};
}

SaveHow save_how(const CheckpointSection& section) {
  const SaveAs as = section.strategy == "full"   ? SaveAs::full
                    : section.strategy == "seed" ? SaveAs::seeds
                                                 : SaveAs::sharded;
  return {as, section.background};
}

Saver::Saver(const CheckpointSection& section, Trainer& trainer, Checkpointer& checkpoints,
             std::function<void(const std::string&)> say)
    : section_(section),
      trainer_(trainer),
      checkpoints_(checkpoints),
      say_(std::move(say)),
      timer_(interval_of(section)) {
  if (section.strategy == "seed") trainer.require_recomputable();
}

void Saver::after_step() {
  if (trainer_.saved_in_background(false)) prune();
  if (due()) save();
}

void Saver::finish() {
  if (section_.last && saved_step_ != trainer_.next_step()) save();
  if (trainer_.saved_in_background(true)) prune();
}

bool Saver::due() {
  const bool mine = timer_.due(trainer_.next_step());
  return timer_.needs_clock() ? checkpoints_.decide(mine) : mine;
}

void Saver::save() {
  const Duration start = Clock::real().now();
  const bool waits =
      section_.synchronous_every > 0 && (saves_ + 1) % section_.synchronous_every == 0;
  const bool background = section_.background && !waits;
  if (background) {
    trainer_.save_in_background();
  } else {
    trainer_.save();
  }
  timer_.saved(Clock::real().now() - start);
  saved_step_ = trainer_.next_step();
  ++saves_;
  if (!background) prune();
}

void Saver::prune() {
  const PruneReport report = checkpoints_.prune(retention_of(section_));
  if (!report.kept_because.empty()) say_(report.kept_because);
}

}  // namespace shardproof
