// bucket_map: sorted by when a backward reaches the parameter.
#include "parallel/bucket_map.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "model/gpt_shape.h"

namespace shardproof {
namespace {

// Positions in a backward: the later a parameter is used in forward, the earlier its gradient.
struct Place {
  int layer = 0;
  int part = 0;
  auto key() const { return std::tuple(-layer, -part); }
};

Place place_of(const std::string& name) {
  constexpr int last = std::numeric_limits<int>::max();
  if (name.starts_with("embed.") || name.starts_with("pos.")) return {-1, 0};
  const auto layer = block_of(name);
  if (!layer) return {last, name.starts_with("head.") ? 1 : 0};
  constexpr std::string_view parts[] = {".ln1.",       ".attn.q.", ".attn.k.", ".attn.v.",
                                        ".attn.proj.", ".ln2.",    ".mlp.up.", ".mlp.down."};
  const auto found = std::ranges::find_if(
      parts, [&](std::string_view part) { return name.find(part) != std::string::npos; });
  SP_CHECK(found != std::end(parts), "an unknown part of a block: " + name);
  return {*layer, static_cast<int>(found - std::begin(parts))};
}

}  // namespace

std::vector<int> ready_order(const PieceTable& table) {
  std::vector<int> order(table.pieces().size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int i) {
    return place_of(table.pieces()[static_cast<std::size_t>(i)].name).key();
  });
  return order;
}

std::vector<std::vector<int>> bucket_map(const PieceTable& table, std::int64_t bucket_bytes) {
  SP_CHECK_LT(0, bucket_bytes);
  std::vector<std::vector<int>> buckets;
  std::int64_t open = bucket_bytes;  // bytes in the open bucket; full at first
  for (const int i : ready_order(table)) {
    if (open >= bucket_bytes) {
      buckets.emplace_back();
      open = 0;
    }
    buckets.back().push_back(i);
    open += table.range(i).size() * static_cast<std::int64_t>(sizeof(float));
  }
  return buckets;
}

}  // namespace shardproof
