// Words, JSON and exit codes of verdicts.
#include "invariants/verdict.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardproof {

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::pass:
      return "pass";
    case Outcome::fail:
      return "fail";
    case Outcome::inconclusive:
      return "inconclusive";
    case Outcome::expected_fail:
      return "expected-fail";
  }
  return "inconclusive";
}

namespace {

// "rank 0", "ranks 0,1,2 and 61 more", "no rank"
std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  if (ranks.empty()) return "no rank";
  const std::size_t shown = std::min(ranks.size(), most);
  std::string out = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                                fmt::join(ranks.begin(), ranks.begin() + shown, ","));
  if (shown < ranks.size()) out += fmt::format(" and {} more", ranks.size() - shown);
  return out;
}

}  // namespace

std::string Difference::print() const {
  std::string out = fmt::format("step {}, {}", step, phase);
  if (!tensor.empty()) out += " " + tensor;
  if (piece >= 0) out += fmt::format(" piece {}", piece);
  if (rank >= 0) out += fmt::format(", rank {}", rank);
  if (element >= 0) out += fmt::format(", element {}", element);
  if (!index.empty()) out += fmt::format(", index [{}]", fmt::join(index, ","));
  if (!left_ranks.empty() || !right_ranks.empty()) {
    out += fmt::format(", on {} against {}", ranks_text(left_ranks), ranks_text(right_ranks));
  }
  out += fmt::format(": expected {}, found {}", left, right);
  if (times > 0) out += fmt::format(", {:.3g} x the rounding error", times);
  return out;
}

Json Difference::to_json() const {
  Json out{{"step", step}, {"phase", phase},     {"tensor", tensor}, {"piece", piece},
           {"rank", rank}, {"element", element}, {"expected", left}, {"found", right}};
  if (!index.empty()) out["index"] = index;
  if (!left_ranks.empty()) out["expected_ranks"] = left_ranks;
  if (!right_ranks.empty()) out["found_ranks"] = right_ranks;
  if (times > 0) out["times"] = times;
  return out;
}

Json Verdict::to_json() const {
  Json out{{"check", check},
           {"subject", subject},
           {"sentence", sentence},
           {"outcome", std::string(name(outcome))},
           {"reason", reason}};
  out["difference"] = difference ? difference->to_json() : Json(nullptr);
  out["notes"] = notes;
  out["replay"] = replay;
  return out;
}

int exit_code(const std::vector<Verdict>& verdicts) {
  const auto any = [&](Outcome outcome) {
    return std::any_of(verdicts.begin(), verdicts.end(),
                       [&](const Verdict& verdict) { return verdict.outcome == outcome; });
  };
  if (any(Outcome::fail)) return 1;
  return verdicts.empty() || any(Outcome::inconclusive) ? 3 : 0;
}

}  // namespace shardproof
