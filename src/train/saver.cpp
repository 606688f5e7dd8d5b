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
             std::function<void(const std::string&)> say, SaveWatch* watch)
    : section_(section),
      trainer_(trainer),
      checkpoints_(checkpoints),
      say_(std::move(say)),
      watch_(watch),
      timer_(interval_of(section)) {
  if (section.strategy == "seed") trainer.require_recomputable();
}

void Saver::after_step() {
  if (trainer_.saved_in_background(false)) ended();
  if (due()) save();
}

void Saver::finish() {
  if (section_.last && saved_step_ != trainer_.next_step()) save();
  await_background();
}

bool Saver::settle() {
  if (saved_step_ != trainer_.next_step()) return false;
  await_background();
  return true;
}

bool Saver::due() {
  const bool mine = timer_.due(trainer_.next_step());
  return timer_.needs_clock() ? checkpoints_.decide(mine) : mine;
}

void Saver::await_background() {
  if (trainer_.saved_in_background(true)) ended();
}

void Saver::save() {
  const Duration start = Clock::real().now();
  await_background();
  const bool waits =
      section_.synchronous_every > 0 && (saves_ + 1) % section_.synchronous_every == 0;
  const bool background = section_.background && !waits;
  saved_step_ = trainer_.next_step();
  if (watch_ != nullptr) watch_->begun(saved_step_);
  if (background) {
    trainer_.save_in_background();
  } else {
    trainer_.save();
  }
  timer_.saved(Clock::real().now() - start);
  ++saves_;
  if (!background) ended();
}

// The save of saved_step_ is there.
void Saver::ended() {
  if (watch_ != nullptr) watch_->saved(saved_step_);
  const auto in_use = watch_ != nullptr ? watch_->in_use() : std::set<std::string>();
  const PruneReport report = checkpoints_.prune(retention_of(section_), in_use);
  if (!report.kept_because.empty()) say_(report.kept_because);
}

}  // namespace shardproof
