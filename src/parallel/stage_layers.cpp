// stage_layers: bounds, and names.
#include "parallel/stage_layers.h"

#include "base/check.h"
#include "base/piece.h"
#include "parallel/schedule.h"

namespace shardproof {

int virtual_stages(const Layout& layout) {
  return layout.pp * chunks_of(layout);
}

std::vector<LayerRange> stage_layers(const Layout& layout, int layers,
                                     const std::vector<int>& sizes) {
  const int stages = virtual_stages(layout);
  SP_CHECK_LE(stages, layers);
  std::vector<LayerRange> ranges;
  if (sizes.empty()) {
    for (int q = 0; q < stages; ++q) {
      ranges.push_back({static_cast<int>(share_bound(layers, stages, q)),
                        static_cast<int>(share_bound(layers, stages, q + 1))});
    }
    return ranges;
  }
  SP_CHECK_EQ(static_cast<int>(sizes.size()), stages);
  int first = 0;
  for (const int size : sizes) {
    SP_CHECK_LE(1, size);
    ranges.push_back({first, first + size});
    first += size;
  }
  SP_CHECK_EQ(first, layers);
  return ranges;
}

std::vector<LayerRange> chunk_layers(const Layout& layout, int pp_rank, int layers,
                                     const std::vector<int>& sizes) {
  const auto all = stage_layers(layout, layers, sizes);
  std::vector<LayerRange> mine;
  for (int chunk = 0; chunk < chunks_of(layout); ++chunk) {
    mine.push_back(all.at(static_cast<std::size_t>(chunk * layout.pp + pp_rank)));
  }
  return mine;
}

bool holds(const LayerRange& stage, const GptShape& shape, const std::string& parameter) {
  const bool last = stage.last == shape.layers;
  if (const auto layer = block_of(parameter)) return stage.first <= *layer && *layer < stage.last;
  if (parameter.starts_with("embed.")) return stage.first == 0 || (last && shape.tied);
  if (parameter.starts_with("pos.")) return stage.first == 0;
  SP_CHECK(parameter.starts_with("ln_f.") || parameter.starts_with("head."),
           "a parameter of no stage: " + parameter);
  return last;
}

}  // namespace shardproof
