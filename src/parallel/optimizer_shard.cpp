// optimizer_shard: window by window, and piece by piece within, since decay goes by name.
#include "parallel/optimizer_shard.h"

#include <algorithm>

#include "base/check.h"
#include "parallel/flat.h"

namespace shardproof {
namespace {

std::span<float> first_of(at::Tensor& tensor, std::int64_t count) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(count)};
}

}  // namespace

OptimizerOffload optimizer_offload(const OffloadOptions& options, OffloadStore* store) {
  constexpr std::int64_t block_bytes =
      3 * block_elements * static_cast<std::int64_t>(sizeof(float));
  return {store, std::max<std::int64_t>(1, options.window / block_bytes) * block_elements};
}

OptimizerShard::OptimizerShard(const PieceTable& table, ElementRange owned, const float* masters,
                               const OptimizerOffload& offload)
    : table_(table),
      owned_(owned),
      window_(offload.store != nullptr ? std::min(offload.window, owned.size()) : owned.size()) {
  for (Kind& kind : kinds_) {
    if (offload.store != nullptr) {
      kind.away = offload.store->make(owned.size());
    } else {
      kind.here = flat_zeros(owned.size(), MemoryUse::optimizer);
    }
  }
  if (offloaded()) {
    kinds_[master].away->put_out(0, {masters, static_cast<std::size_t>(owned.size())});
  } else {
    std::copy_n(masters, owned.size(), kinds_[master].here.data_ptr<float>());
  }
}

void OptimizerShard::update(const AdamWConfig& config, const AdamWStep& at,
                            const std::vector<std::string>& no_decay, const float* gradient,
                            const Take& take) {
  for (std::int64_t lo = 0; lo < owned_.size(); lo += window_) {
    const ElementRange part{lo, std::min(lo + window_, owned_.size())};
    bring_in(part);
    step(config, at, no_decay, gradient, part);
    put_out(part);
    take(lo, first_of(kinds_[master].here, part.size()));
  }
  if (!offloaded()) return;
  for (Kind& kind : kinds_) kind.here = at::Tensor();
}

void OptimizerShard::bring_in(ElementRange part) {
  if (!offloaded()) return;
  for (Kind& kind : kinds_) {
    if (!kind.here.defined()) kind.here = flat_empty(window_, MemoryUse::optimizer);
    kind.away->bring_in(part.lo, first_of(kind.here, part.size()));
  }
}

void OptimizerShard::put_out(ElementRange part) {
  if (!offloaded()) return;
  for (Kind& kind : kinds_) kind.away->put_out(part.lo, first_of(kind.here, part.size()));
}

// `part` of `owned`, which `here` holds from its beginning on.
void OptimizerShard::step(const AdamWConfig& config, const AdamWStep& at,
                          const std::vector<std::string>& no_decay, const float* gradient,
                          ElementRange part) {
  const ElementRange window{owned_.lo + part.lo, owned_.lo + part.hi};
  for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
    const ElementRange run = intersect(table_.range(static_cast<int>(i)), window);
    if (run.size() <= 0) continue;
    const std::int64_t begin = run.lo - window.lo;
    adamw(config, at, decays(table_.pieces()[i].name, no_decay), run.size(),
          gradient + (run.lo - owned_.lo), kinds_[master].here.data_ptr<float>() + begin,
          kinds_[exp_avg].here.data_ptr<float>() + begin,
          kinds_[exp_avg_sq].here.data_ptr<float>() + begin);
  }
}

float* OptimizerShard::data(const std::string& what) {
  const int kind = what == "master" ? master : what == "exp_avg" ? exp_avg : exp_avg_sq;
  SP_CHECK(kind != exp_avg_sq || what == "exp_avg_sq", "no such state: " + what);
  Kind& state = kinds_[static_cast<std::size_t>(kind)];
  return offloaded() ? state.away->view() : state.here.data_ptr<float>();
}

void OptimizerShard::keep_views() {
  if (!offloaded()) return;
  for (Kind& kind : kinds_) kind.away->keep_view();
}

void OptimizerShard::drop_views() {
  if (!offloaded()) return;
  for (Kind& kind : kinds_) kind.away->drop_view();
}

std::int64_t OptimizerShard::bytes() const {
  std::int64_t sum = 0;
  for (const Kind& kind : kinds_) {
    if (kind.here.defined()) sum += static_cast<std::int64_t>(kind.here.nbytes());
  }
  return sum;
}

std::int64_t OptimizerShard::offloaded_bytes() const {
  std::int64_t sum = 0;
  for (const Kind& kind : kinds_) sum += kind.away ? kind.away->bytes() : 0;
  return sum;
}

OffloadTraffic OptimizerShard::traffic() const {
  OffloadTraffic sum;
  for (const Kind& kind : kinds_) sum += kind.away ? kind.away->traffic() : OffloadTraffic();
  return sum;
}

OffloadTraffic OptimizerShard::view_traffic() const {
  OffloadTraffic sum;
  for (const Kind& kind : kinds_) sum += kind.away ? kind.away->view_traffic() : OffloadTraffic();
  return sum;
}

}  // namespace shardproof
