// llm_c: the model files of llm.c: 256 integers, which name the model's shape, then its parameters
// end to end. Versions 3 (float32) and 5 (bfloat16), with a padded vocabulary. Thread rule: one
// thread.
#pragma once

#include <string>

#include "checkpoint/foreign/checkpoint.h"

namespace shardproof::foreign {

bool looks_like_llm_c(std::span<const std::byte> file);
void read_llm_c(Checkpoint& checkpoint, const std::string& file);

}  // namespace shardproof::foreign
