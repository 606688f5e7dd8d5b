// The update loop, and decay by name.
#include "optim/adamw.h"

#include <cmath>

#include "base/check.h"

namespace shardproof {
namespace {

// The loop's scalars, each computed in double and rounded once.
struct Scalars {
  float beta1, rest1, beta2, rest2, correction1, correction2, epsilon, decay, lr, clip;
};

Scalars scalars(const AdamWConfig& config, const AdamWStep& at, bool decay) {
  const double t = static_cast<double>(at.step) + 1;
  const auto round = [](double value) { return static_cast<float>(value); };
  return {.beta1 = round(config.beta1),
          .rest1 = round(1 - config.beta1),
          .beta2 = round(config.beta2),
          .rest2 = round(1 - config.beta2),
          .correction1 = round(1 - std::pow(config.beta1, t)),
          .correction2 = round(1 - std::pow(config.beta2, t)),
          .epsilon = round(config.epsilon),
          .decay = round(decay ? config.weight_decay : 0),
          .lr = round(at.lr),
          .clip = round(at.clip_factor)};
}

}  // namespace

void adamw(const AdamWConfig& config, const AdamWStep& at, bool decay, std::int64_t count,
           const float* __restrict grad, float* __restrict master, float* __restrict exp_avg,
           float* __restrict exp_avg_sq) {
  SP_CHECK_LE(0, count);
  SP_CHECK_LE(0, at.step);
  const Scalars c = scalars(config, at, decay);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = c.clip * grad[i];
    const float m = c.beta1 * exp_avg[i] + c.rest1 * g;
    const float v = c.beta2 * exp_avg_sq[i] + c.rest2 * (g * g);
    const float adam = (m / c.correction1) / (std::sqrt(v / c.correction2) + c.epsilon);
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = master[i] - c.lr * (adam + c.decay * master[i]);
  }
}

namespace {

// Greedy match of '*' as any text, with one point to go back to.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

bool decays(std::string_view name, const std::vector<std::string>& no_decay) {
  for (const std::string& pattern : no_decay) {
    if (matches(name, pattern)) return false;
  }
  return true;
}

}  // namespace shardproof
