// guard: finite, in range, and where not, which number came first.
#include "train/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "base/json.h"

namespace shardproof {
namespace {

Error cannot_go_on(std::int64_t step, const std::string& why, int rank = Error::no_rank) {
  return Error(ErrorKind::numeric, fmt::format("step {}", step), why, rank);
}

}  // namespace

std::string first_not_finite(Plan& plan, const std::string& what, const std::string& called) {
  for (const StateShard& shard : plan.shards(what, true)) {
    const auto* const begin = static_cast<const float*>(shard.data);
    const auto* const end = begin + shard.range.size();
    const auto* const found = std::find_if(begin, end, [](float x) { return !std::isfinite(x); });
    if (found == end) continue;
    const PieceSpec& piece = plan.table().pieces()[static_cast<std::size_t>(shard.piece_index)];
    return fmt::format("the {} {} is {} at element {} of piece {} of {}", called, piece.name,
                       *found, shard.range.lo + (found - begin), piece.piece, piece.pieces);
  }
  return "";
}

std::string first_not_finite(std::span<const LossLeaf> losses) {
  const LossLeaf* first = nullptr;
  for (const LossLeaf& leaf : losses) {
    if (std::isfinite(leaf.sum)) continue;
    const auto place = [](const LossLeaf& of) {
      return std::tuple(of.micro_batch, of.sequence_piece);
    };
    if (first == nullptr || place(leaf) < place(*first)) first = &leaf;
  }
  if (first == nullptr) return "";
  return fmt::format("the loss of micro-batch {}, sequence piece {}, is {}", first->micro_batch,
                     first->sequence_piece, first->sum);
}

void Guard::check(std::int64_t step, double loss, double grad_norm, Plan& plan,
                  std::span<const LossLeaf> losses) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    not_finite(step, loss, grad_norm, plan, losses);
  }
  check_ranges(step, loss, grad_norm);
}

void Guard::not_finite(std::int64_t step, double loss, double grad_norm, Plan& plan,
                       std::span<const LossLeaf> losses) {
  const std::vector<std::string> found{first_not_finite(plan, "param", "parameter"),
                                       first_not_finite(losses),
                                       first_not_finite(plan, "grad", "reduced gradient")};
  const std::string mine = Json(found).dump();
  const auto all = gather_ ? gather_(mine) : std::vector<std::string>{mine};
  const std::string values =
      fmt::format("loss {} and gradient norm {}; expected finite values", loss, grad_norm);
  for (std::size_t kind = 0; kind < found.size(); ++kind) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto text =
          parse_json(all[rank], "numbers that are not finite").at(kind).get<std::string>();
      if (text.empty()) continue;
      throw cannot_go_on(step, fmt::format("{}: on rank {} {}", values, rank, text),
                         static_cast<int>(rank));
    }
  }
  throw cannot_go_on(step, values +
                               ": every parameter, loss and gradient is finite, their sum "
                               "is not");
}

void Guard::check_ranges(std::int64_t step, double loss, double grad_norm) const {
  const auto above = [&](const char* what, double value, const char* key, double limit) {
    if (limit == 0 || value <= limit) return;
    throw cannot_go_on(
        step, fmt::format("{} {}; expected at most {} (guard.{})", what, value, limit, key));
  };
  above("loss", loss, "loss_max", section_.loss_max);
  above("gradient norm", grad_norm, "grad_norm_max", section_.grad_norm_max);
  if (grad_norm >= section_.grad_norm_min) return;
  throw cannot_go_on(step, fmt::format("gradient norm {}; expected at least {} (guard."
                                       "grad_norm_min)",
                                       grad_norm, section_.grad_norm_min));
}

}  // namespace shardproof
