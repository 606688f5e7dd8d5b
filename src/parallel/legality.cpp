// legality: the rules, in the order in which they are checked.
#include "parallel/legality.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/mesh_pieces.h"
#include "parallel/pipeline_rules.h"

namespace shardproof {
namespace {

constexpr std::string_view supported =
    "supported: dpN, tpN with or without sp, cpN (or cpN-ring), cpN-zigzag or cpN-ulysses, ppN "
    "with "
    "any "
    "schedule, and zero0 to zero3, together such as dp2.tp2.sp.pp2.zero1";

std::string unsupported(const Layout& layout) {
  if (layout.ep == 1) return "";
  return fmt::format("layout {}: expert parallelism (ep) is not supported yet; {}", layout.print(),
                     supported);
}

// cp-ulysses deals the tensor pieces of every tensor rank to its context group.
std::string too_few_heads(const Layout& layout, const GptShape& shape) {
  if (layout.cp == 1 || layout.context_kind != "ulysses") return "";
  const int least = shape.tensor_pieces / layout.tp;  // balanced: no share is smaller
  if (layout.cp <= least) return "";
  std::string expected;
  if (least > 1)
    expected = fmt::format("cp2{}-ulysses, ", least > 2 ? fmt::format(" to cp{}", least) : "");
  for (int pieces = layout.tp * layout.cp; pieces <= shape.heads; ++pieces) {
    if (shape.heads % pieces != 0) continue;
    expected += fmt::format("numerics.tensor_pieces {}, ", pieces);
    break;
  }
  return fmt::format(
      "layout {}: cp {}-ulysses deals the tensor pieces (whole heads) of a tp rank to its {} cp "
      "ranks and the smallest share is {} of {} (numerics.tensor_pieces, up to {} heads); expected "
      "{}or ring or zigzag",
      layout.print(), layout.cp, layout.cp, least, shape.tensor_pieces, shape.heads, expected);
}

// What no rank may go without. Balanced bounds: any degree up to the number of pieces is legal.
std::string too_few_pieces(const Layout& layout, const GptShape& shape) {
  const std::string name = "layout " + layout.print();
  if (layout.tp > shape.tensor_pieces) {
    return fmt::format(
        "{}: tp {} needs a tensor piece on every rank and there are {} "
        "(numerics.tensor_pieces); expected tp 1 to {}",
        name, layout.tp, shape.tensor_pieces, shape.tensor_pieces);
  }
  const int pieces = shape.sequence_pieces;
  const bool zigzag = layout.cp > 1 && layout.context_kind == "zigzag";
  const int runs = zigzag ? 2 * layout.cp : layout.cp;
  if (runs > pieces && zigzag) {
    std::string expected = fmt::format("cp 1 to {} without zigzag", pieces);
    if (pieces >= 4) expected += ", cp2-zigzag";
    if (pieces >= 6) expected += fmt::format(" to cp{}-zigzag", pieces / 2);
    return fmt::format(
        "{}: cp {}-zigzag needs {} sequence pieces, one from each end of the sequence for each of "
        "its {} ranks, and there are {} (numerics.sequence_pieces); expected {} or "
        "numerics.sequence_pieces={}",
        name, layout.cp, runs, layout.cp, pieces, expected, runs);
  }
  if (runs > pieces) {
    return fmt::format(
        "{}: cp {} needs 1 sequence piece on every rank and there are {} "
        "(numerics.sequence_pieces); expected cp 1 to {}",
        name, layout.cp, pieces, pieces);
  }
  if (!layout.sequence_parallel) return "";
  std::size_t least = static_cast<std::size_t>(pieces);
  for (const auto& owned : sequence_owners(layout, pieces).owned) {
    least = std::min(least, owned.size());
  }
  if (static_cast<std::size_t>(layout.tp) > least) {
    return fmt::format(
        "{}: sp deals the sequence pieces of a cp rank to its {} tp ranks and the "
        "smallest share is {} of {} (numerics.sequence_pieces); expected {}",
        name, layout.tp, least, pieces,
        least > 1 ? fmt::format("tp 2 to {} with sp, or no sp", least) : "no sp");
  }
  return "";
}

// ZeRO 2 and 3 reduce every micro-batch's gradient over dp: all data ranks run as many.
std::string uneven_shares(const Layout& layout, int micro_batches) {
  const std::string name = "layout " + layout.print();
  const auto nearest_divisors = [](int of, int to) {
    int below = std::min(to, of), above = to;
    while (of % below != 0) --below;
    while (above <= of && of % above != 0) ++above;
    return above > of || above == below ? fmt::format("{}", below)
                                        : fmt::format("{} or {}", below, above);
  };
  if (layout.shard_group > 0 && layout.zero == 0) {
    return fmt::format(
        "{}: shard{} divides the ranks that share a ZeRO state and zero0 shares "
        "none; expected zero1, zero2 or zero3, or no shard",
        name, layout.shard_group);
  }
  if (layout.shard_group > 0 && layout.dp % layout.shard_group != 0) {
    return fmt::format("{}: a shard group of {} must divide dp {}; expected shard{}", name,
                       layout.shard_group, layout.dp,
                       nearest_divisors(layout.dp, layout.shard_group));
  }
  if (layout.zero >= 2 && micro_batches % layout.dp != 0) {
    return fmt::format(
        "{}: zero{} reduces gradients after every micro-batch, so dp {} must divide "
        "the {} micro-batches of a step; expected dp {}, or zero1",
        name, layout.zero, layout.dp, micro_batches, nearest_divisors(micro_batches, layout.dp));
  }
  return "";
}

}  // namespace

std::string problem(const Layout& layout, const GptShape& shape, int micro_batches, int ranks,
                    const std::vector<int>& stage_layers) {
  if (std::string text = problem(shape); !text.empty()) return text;
  if (std::string text = unsupported(layout); !text.empty()) return text;
  if (std::string text = too_few_pieces(layout, shape); !text.empty()) return text;
  if (std::string text = too_few_heads(layout, shape); !text.empty()) return text;
  if (micro_batches < 1) {
    return fmt::format("{} micro-batches a step; expected at least 1", micro_batches);
  }
  if (std::string text = uneven_shares(layout, micro_batches); !text.empty()) return text;
  if (std::string text = pipeline_problem(layout, shape, micro_batches, stage_layers);
      !text.empty()) {
    return text;
  }
  // More data ranks than micro-batches is legal: a rank without gradients still takes part.
  if (ranks == 0 || ranks == layout.world()) return "";
  Layout nearest = layout;
  const int others = layout.world() / layout.dp;
  nearest.dp = std::max(1, ranks / others);
  const std::string expected =
      nearest.world() == ranks
          ? nearest.print()
          : fmt::format("{} ranks, or {} on {}", layout.world(), nearest.print(), nearest.world());
  return fmt::format("layout {} needs {} ranks and there are {}; expected {}", layout.print(),
                     layout.world(), ranks, expected);
}

}  // namespace shardproof
