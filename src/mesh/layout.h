// layout: who owns which piece. A Layout is data: degrees of the axes, how context and pipeline
// run, the ZeRO stage. Printed and parsed as dpA.tpB[.sp].cpC[-ring|-zigzag|-ulysses].
// ppD[-gpipe|-1f1b|-intV|-zb].epE.zeroK[-shardF], parts of degree 1 left out; also "dp=2,tp=2".
// "fsdp" is zero3. One rank prints as "dp1". world = dp x tp x cp x pp x ep.
// Rank order, fastest first: tp, cp, ep, dp, pp. sp is a flag that reuses the tp group.
// Thread rule: values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

enum class Axis { tensor, context, expert, data, pipeline };  // in rank order, fastest first
inline constexpr int axis_count = 5;
std::string_view short_name(Axis axis);  // "tp", "cp", "ep", "dp", "pp"

struct Layout {
  int dp = 1;
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int ep = 1;
  bool sequence_parallel = false;
  std::string context_kind = "ring";  // ring | zigzag | ulysses
  std::string schedule = "1f1b";      // gpipe | 1f1b | intV | zb
  int zero = 0;
  int shard_group = 0;  // 0: the whole data axis

  int world() const { return dp * tp * cp * pp * ep; }
  // Data ranks that share a ZeRO state.
  int shard_size() const { return shard_group == 0 ? dp : shard_group; }
  int degree(Axis axis) const;
  std::string print() const;
  bool operator==(const Layout&) const = default;
};

// Error bad_input naming the part and what was expected.
Layout parse_layout(std::string_view text);

// Coordinates of a world rank on every axis.
struct Coordinates {
  int tp = 0, cp = 0, ep = 0, dp = 0, pp = 0;
  int at(Axis axis) const;
};
Coordinates coordinates(const Layout& layout, int world_rank);
int world_rank(const Layout& layout, const Coordinates& at);

// The groups of an axis: each is a list of world ranks that differ only there, ascending.
std::vector<std::vector<int>> groups(const Layout& layout, Axis axis);
// A printable table: every axis with its groups (what 8 ranks as dp2.tp2.pp2 look like).
std::string print_groups(const Layout& layout);

// The micro-batches that a data rank runs, ascending. ZeRO 0 and 1: contiguous and balanced, uneven
// shares legal. ZeRO 2 and 3 reduce gradients after every micro-batch: each shard group of F ranks
// has a contiguous run, dealt to its ranks in turn, so that every round brings neighbours together.
// Precondition there: dp divides micro_batches.
std::vector<int> owned_micro_batches(const Layout& layout, int micro_batches, int data_rank);

}  // namespace shardproof
