// spike: a median and a memory of one step.
#include "train/spike.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace shardproof {

double SpikeWatch::median() const {
  if (losses_.empty()) return 0;
  std::vector<double> values;
  for (const auto& [step, loss] : losses_) values.push_back(loss);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

SpikeRuling SpikeWatch::look(std::int64_t step, double loss) {
  if (factor_ == 0 || losses_.empty() || loss <= factor_ * median()) return SpikeRuling::none;
  Seen& seen = seen_[step];
  const bool again = seen.times > 0 &&
                     std::bit_cast<std::uint64_t>(seen.loss) == std::bit_cast<std::uint64_t>(loss);
  if (again) return SpikeRuling::accept;
  if (seen.times == rollbacks) return SpikeRuling::give_up;
  seen.loss = loss;
  ++seen.times;
  return SpikeRuling::roll_back;
}

void SpikeWatch::add(std::int64_t step, double loss) {
  losses_.emplace_back(step, loss);
  if (losses_.size() > static_cast<std::size_t>(window_)) losses_.pop_front();
}

// The window shrinks: what was pushed out of it is not known any more.
void SpikeWatch::forget_from(std::int64_t step) {
  while (!losses_.empty() && losses_.back().first >= step) losses_.pop_back();
}

}  // namespace shardproof
