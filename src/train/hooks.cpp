// hooks: the defaults, which do nothing.
#include "train/hooks.h"

namespace shardproof {

void Hooks::entering(std::int64_t, Phase) {}
void Hooks::phase(std::int64_t, Phase, Plan&) {}

}  // namespace shardproof
