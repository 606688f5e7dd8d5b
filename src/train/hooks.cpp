// hooks: the defaults, which do nothing.
#include "train/hooks.h"

namespace shardproof {

void Hooks::begin(Plan&) {}
void Hooks::entering(std::int64_t, Phase) {}
void Hooks::phase(std::int64_t, Phase, Plan&) {}
double Hooks::learning_rate(std::int64_t, double rate) {
  return rate;
}

}  // namespace shardproof
