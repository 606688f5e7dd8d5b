// optimizer_shard: piece by piece, since decay goes by name.
#include "parallel/optimizer_shard.h"

#include <algorithm>

#include "base/check.h"
#include "parallel/flat.h"

namespace shardproof {

OptimizerShard::OptimizerShard(const PieceTable& table, ElementRange owned, const float* masters)
    : table_(table),
      owned_(owned),
      master_(flat_zeros(owned.size(), MemoryUse::optimizer)),
      exp_avg_(flat_zeros(owned.size(), MemoryUse::optimizer)),
      exp_avg_sq_(flat_zeros(owned.size(), MemoryUse::optimizer)) {
  std::copy_n(masters, owned.size(), master_.data_ptr<float>());
}

void OptimizerShard::update(const AdamWConfig& config, const AdamWStep& at,
                            const std::vector<std::string>& no_decay, const float* gradient) {
  for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
    const ElementRange part = intersect(table_.range(static_cast<int>(i)), owned_);
    if (part.size() <= 0) continue;
    const std::int64_t begin = part.lo - owned_.lo;
    adamw(config, at, decays(table_.pieces()[i].name, no_decay), part.size(), gradient + begin,
          master_.data_ptr<float>() + begin, exp_avg_.data_ptr<float>() + begin,
          exp_avg_sq_.data_ptr<float>() + begin);
  }
}

float* OptimizerShard::data(const std::string& what) {
  if (what == "master") return master_.data_ptr<float>();
  if (what == "exp_avg") return exp_avg_.data_ptr<float>();
  SP_CHECK(what == "exp_avg_sq", "no such state: " + what);
  return exp_avg_sq_.data_ptr<float>();
}

std::int64_t OptimizerShard::bytes() const {
  return static_cast<std::int64_t>(master_.nbytes() + exp_avg_.nbytes() + exp_avg_sq_.nbytes());
}

}  // namespace shardproof
