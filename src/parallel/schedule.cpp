// schedule: warm-up, steady state, the rest.
#include "parallel/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace shardproof {
namespace {

using enum ActionKind;

// One unit: a micro-batch on a chunk.
struct Unit {
  int micro_batch = 0;
  int chunk = 0;
};

// `warm_up` forwards, then forward and backward in turn until either runs out.
Schedule one_forward_one_backward(const std::vector<Unit>& forwards,
                                  const std::vector<Unit>& backwards, std::size_t warm_up) {
  Schedule schedule;
  std::size_t f = 0;
  const auto take_forward = [&] {
    schedule.push_back({forward, forwards[f].micro_batch, forwards[f].chunk});
    ++f;
  };
  while (f < std::min(warm_up, forwards.size())) take_forward();
  for (const Unit& unit : backwards) {
    if (f < forwards.size()) take_forward();
    schedule.push_back({backward, unit.micro_batch, unit.chunk});
  }
  return schedule;
}

// In rounds of `stages` micro-batches: each round passes through every chunk before the next one
// starts. Backwards pass through the chunks from the last to the first.
std::vector<Unit> rounds(const std::vector<int>& micro_batches, int stages, int chunks, bool back) {
  const auto round = static_cast<std::size_t>(stages);
  SP_CHECK_EQ(micro_batches.size() % round, 0U);
  std::vector<Unit> units;
  for (std::size_t first = 0; first < micro_batches.size(); first += round) {
    for (int c = 0; c < chunks; ++c) {
      for (std::size_t i = first; i < first + round; ++i) {
        units.push_back({micro_batches[i], back ? chunks - 1 - c : c});
      }
    }
  }
  return units;
}

// Every backward becomes its input half; the weight half of a micro-batch follows the input half of
// the micro-batch `delay` later, and what is left comes last.
Schedule split_backwards(const Schedule& fused, std::size_t delay) {
  Schedule split;
  std::vector<Action> waiting;
  std::size_t done = 0;
  for (const Action& action : fused) {
    if (action.kind == forward) {
      split.push_back(action);
      continue;
    }
    split.push_back({backward_input, action.micro_batch, action.chunk});
    waiting.push_back({backward_weight, action.micro_batch, action.chunk});
    if (waiting.size() - done > delay) split.push_back(waiting[done++]);
  }
  split.insert(split.end(), waiting.begin() + static_cast<std::ptrdiff_t>(done), waiting.end());
  return split;
}

}  // namespace

std::string_view letter(ActionKind kind) {
  switch (kind) {
    case forward:
      return "F";
    case backward:
      return "B";
    case backward_input:
      return "I";
    case backward_weight:
      return "W";
  }
  return "?";
}

std::string print(const Action& action) {
  const std::string text = fmt::format("{}{}", letter(action.kind), action.micro_batch);
  return action.chunk == 0 ? text : fmt::format("{}.{}", text, action.chunk);
}

int chunks_of(const Layout& layout) {
  if (!layout.schedule.starts_with("int")) return 1;
  int chunks = 0;
  const char* end = layout.schedule.data() + layout.schedule.size();
  const auto [rest, error] = std::from_chars(layout.schedule.data() + 3, end, chunks);
  SP_CHECK(error == std::errc() && rest == end && chunks >= 1, layout.schedule);
  return chunks;
}

Schedule stage_schedule(const Layout& layout, int pp_rank, const std::vector<int>& micro_batches) {
  SP_CHECK(0 <= pp_rank && pp_rank < layout.pp, fmt::format("stage {}", pp_rank));
  SP_CHECK(std::ranges::is_sorted(micro_batches), "micro-batches ascend");
  const int chunks = chunks_of(layout);
  const auto behind = static_cast<std::size_t>(layout.pp - 1 - pp_rank);
  if (layout.schedule.starts_with("int")) {
    const std::size_t warm_up =
        2 * behind + static_cast<std::size_t>(chunks - 1) * static_cast<std::size_t>(layout.pp);
    return one_forward_one_backward(rounds(micro_batches, layout.pp, chunks, false),
                                    rounds(micro_batches, layout.pp, chunks, true), warm_up);
  }
  std::vector<Unit> units;
  for (const int m : micro_batches) units.push_back({m, 0});
  if (layout.schedule == "gpipe") return one_forward_one_backward(units, units, units.size());
  const Schedule fused = one_forward_one_backward(units, units, behind);
  if (layout.schedule == "1f1b") return fused;
  SP_CHECK(layout.schedule == "zb", layout.schedule);
  return split_backwards(fused, static_cast<std::size_t>(pp_rank));
}

std::vector<Schedule> all_stages(const Layout& layout, const std::vector<int>& micro_batches) {
  std::vector<Schedule> stages;
  for (int r = 0; r < layout.pp; ++r) stages.push_back(stage_schedule(layout, r, micro_batches));
  return stages;
}

}  // namespace shardproof
