// batch: counting what the loss will see.
#include "base/batch.h"

#include <algorithm>

namespace shardproof {

std::int64_t MicroBatch::valid_tokens() const {
  return std::count_if(targets.begin(), targets.end(),
                       [](std::int32_t target) { return target != ignored; });
}

}  // namespace shardproof
