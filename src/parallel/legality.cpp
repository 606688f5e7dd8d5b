// legality: the rules, in the order in which they are checked.
#include "parallel/legality.h"

#include <fmt/format.h>

namespace shardproof {
namespace {

constexpr std::string_view supported = "supported: dpN with zero0 or zero1, such as dp4.zero1";

std::string unsupported(const Layout& layout) {
  std::string_view part;
  if (layout.tp > 1)
    part = "tensor parallelism (tp)";
  else if (layout.sequence_parallel)
    part = "sequence parallelism (sp)";
  else if (layout.cp > 1)
    part = "context parallelism (cp)";
  else if (layout.pp > 1)
    part = "pipeline parallelism (pp)";
  else if (layout.ep > 1)
    part = "expert parallelism (ep)";
  else if (layout.zero > 1)
    part = layout.zero == 2 ? "ZeRO stage 2" : "ZeRO stage 3 (fsdp)";
  else if (layout.shard_group > 0)
    part = "a ZeRO shard group smaller than dp (-shardF)";
  else
    return "";
  return fmt::format("layout {}: {} is not supported yet; {}", layout.print(), part, supported);
}

}  // namespace

std::string problem(const Layout& layout, const GptShape& shape, int micro_batches, int ranks) {
  if (std::string text = problem(shape); !text.empty()) return text;
  if (std::string text = unsupported(layout); !text.empty()) return text;
  if (micro_batches < 1) {
    return fmt::format("{} micro-batches a step; expected at least 1", micro_batches);
  }
  // More data ranks than micro-batches is legal: a rank without gradients still takes part.
  if (ranks != 0 && ranks != layout.world()) {
    return fmt::format("layout {} needs {} ranks and there are {}; expected dp{}", layout.print(),
                       layout.world(), ranks, ranks);
  }
  return "";
}

}  // namespace shardproof
