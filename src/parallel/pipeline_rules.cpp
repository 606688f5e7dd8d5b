// pipeline_rules: the rules, in the order in which they are checked.
#include "parallel/pipeline_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/error.h"
#include "parallel/schedule_simulator.h"
#include "parallel/stage_layers.h"
#include "parallel/stage_tags.h"

namespace shardproof {
namespace {

std::string name(const Layout& layout) {
  return "layout " + layout.print();
}

std::string with_layers_for(const Layout& layout, int layers) {
  const int chunks = chunks_of(layout);
  if (chunks == 1) return layers == 1 ? "pp 1" : fmt::format("pp 1 to {}", layers);
  std::vector<std::string> nearest;
  if (layers / chunks >= 2) nearest.push_back(fmt::format("pp{}-int{}", layers / chunks, chunks));
  if (layers / layout.pp >= 2) {
    nearest.push_back(fmt::format("pp{}-int{}", layout.pp, layers / layout.pp));
  }
  nearest.push_back(
      fmt::format("pp {} without intV", layers == 1 ? "1" : fmt::format("1 to {}", layers)));
  return fmt::format("{}", fmt::join(nearest, " or "));
}

std::string too_few_layers(const Layout& layout, int layers) {
  const int stages = virtual_stages(layout);
  if (stages <= layers) return "";
  const int chunks = chunks_of(layout);
  return fmt::format(
      "{}: pp {}{} needs a layer on each of {} stages and there {} {} (model.layers); expected {}",
      name(layout), layout.pp, chunks == 1 ? "" : fmt::format(" x {} chunks a rank", chunks),
      stages, layers == 1 ? "is" : "are", layers, with_layers_for(layout, layers));
}

std::string wrong_sizes(const Layout& layout, int layers, const std::vector<int>& sizes) {
  if (sizes.empty()) return "";
  const int stages = virtual_stages(layout);
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const bool each = std::ranges::all_of(sizes, [](int size) { return size >= 1; });
  if (std::ssize(sizes) == stages && each && sum == layers) return "";
  std::vector<int> balanced;
  for (const LayerRange& range : stage_layers(layout, layers)) {
    balanced.push_back(range.last - range.first);
  }
  return fmt::format(
      "{}: parallel.stage_layers [{}] are {} sizes with the sum {}; expected one of at least 1 for "
      "each of {} stage{} with the sum {} (model.layers), such as [{}]",
      name(layout), fmt::join(sizes, ", "), sizes.size(), sum, stages, stages == 1 ? "" : "s",
      layers, fmt::join(balanced, ", "));
}

// On the data ranks with the fewest and the most micro-batches. Schedules repeat after their
// warm-up: what holds for a few rounds holds for more.
std::string schedules_problem(const Layout& layout, int micro_batches) {
  const int data_ranks = layout.dp * layout.ep;
  for (const int share :
       {micro_batches / data_ranks, (micro_batches + data_ranks - 1) / data_ranks}) {
    std::vector<int> own(static_cast<std::size_t>(std::min(share, 4 * layout.pp)));
    std::iota(own.begin(), own.end(), 0);
    std::string text = schedule_problem(layout, all_stages(layout, own));
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

// Interleaving runs rounds of pp micro-batches (Narayanan et al. 2021), on every data rank.
std::string rounds_problem(const Layout& layout, int micro_batches) {
  if (!layout.schedule.starts_with("int") || layout.pp == 1) return "";
  const int data_ranks = layout.dp * layout.ep;
  const int round = data_ranks * layout.pp;
  if (micro_batches % round == 0 && micro_batches > 0) return "";
  const int below = micro_batches / round * round;
  const std::string nearest =
      below > 0 ? fmt::format("{} or {}", below, below + round) : fmt::format("{}", below + round);
  return fmt::format(
      "{}: {} runs rounds of pp {} micro-batches{} and there are {} a step (training.global_batch "
      "/ "
      "training.micro_batch); expected a multiple of {}, such as {}, or another schedule",
      name(layout), layout.schedule, layout.pp,
      data_ranks > 1 ? fmt::format(" on each of {} data ranks", data_ranks) : "", micro_batches,
      round, nearest);
}

std::string schedule_problem(const Layout& layout, const std::vector<Schedule>& stages) {
  try {
    simulate(stages, chunks_of(layout));
    return "";
  } catch (const Error& error) {
    return fmt::format("{}: its schedule is refused: {}", name(layout), error.detail());
  }
}

std::string pipeline_problem(const Layout& layout, const GptShape& shape, int micro_batches,
                             const std::vector<int>& stage_layers) {
  if (std::string text = too_few_layers(layout, shape.layers); !text.empty()) return text;
  if (std::string text = wrong_sizes(layout, shape.layers, stage_layers); !text.empty()) {
    return text;
  }
  if (!StageTags::fit(virtual_stages(layout), shape.sequence_pieces)) {
    return fmt::format(
        "{}: {} stages x {} sequence pieces (numerics.sequence_pieces) are more ways between "
        "stages than a message can name; expected a product of at most {}",
        name(layout), virtual_stages(layout), shape.sequence_pieces, StageTags::limit / 2);
  }
  if (std::string text = rounds_problem(layout, micro_batches); !text.empty()) return text;
  return layout.pp == 1 ? "" : schedules_problem(layout, micro_batches);
}

}  // namespace shardproof
