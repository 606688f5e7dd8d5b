// Words, JSON and exit codes of verdicts.
#include "invariants/verdict.h"

#include <algorithm>

#include <fmt/format.h>

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

std::string Difference::print() const {
  std::string out = fmt::format("step {}, {}", step, phase);
  if (!tensor.empty()) out += " " + tensor;
  if (piece >= 0) out += fmt::format(" piece {}", piece);
  if (rank >= 0) out += fmt::format(", rank {}", rank);
  if (element >= 0) out += fmt::format(", element {}", element);
  return out + fmt::format(": expected {}, found {}", left, right);
}

Json Difference::to_json() const {
  return Json{{"step", step}, {"phase", phase},     {"tensor", tensor}, {"piece", piece},
              {"rank", rank}, {"element", element}, {"expected", left}, {"found", right}};
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
