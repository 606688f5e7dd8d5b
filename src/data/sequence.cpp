// sequence: the cursor's arithmetic over the epochs of one source, and the ledger's chain.
#include "data/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "data/order.h"

namespace shardproof {
namespace {

class EpochSequence : public Sequence {
 public:
  EpochSequence(std::int64_t size, const LoaderConfig& config)
      : size_(size),
        seed_(config.seed),
        last_(config.last),
        step_(std::int64_t{config.micro_batches} * config.rows) {}

  DataCursor start() const override { return {}; }

  StepPlan take(const DataCursor& from) override {
    StepPlan plan;
    plan.after = from;
    DataCursor& at = plan.after;
    const std::int64_t needed = last_ == LastBatch::drop ? step_ : 1;
    if (size_ - at.taken < needed) {
      ++at.epoch;
      at.taken = 0;
    }
    if (!order_ || order_epoch_ != at.epoch) {
      order_.emplace(size_, seed_, at.epoch);
      order_epoch_ = at.epoch;
    }
    plan.ids.assign(static_cast<std::size_t>(step_), filled_row);
    const std::int64_t count = std::min(step_, size_ - at.taken);
    for (std::int64_t i = 0; i < count; ++i) {
      plan.ids[static_cast<std::size_t>(i)] = order_->at(at.taken + i);
    }
    at.taken += count;
    at.samples += count;
    at.ledger = chain(at.ledger, plan.ids);
    return plan;
  }

  // A whole number of steps into an epoch, or at its end.
  DataCursor adopt(const DataCursor& cursor, Remix) const override {
    if (!cursor.sources.empty()) {
      throw Error(ErrorKind::refused, "data cursor",
                  fmt::format("found one of a mixture of {} sources; expected one source",
                              cursor.sources.size()));
    }
    const std::int64_t epoch = last_ == LastBatch::drop ? size_ - size_ % step_ : size_;
    const bool inside = cursor.epoch >= 0 &&
                        cursor.epoch < std::numeric_limits<std::uint32_t>::max() &&
                        cursor.taken >= 0 && cursor.taken <= epoch &&
                        (cursor.taken % step_ == 0 || cursor.taken == epoch);
    const std::int64_t before = cursor.samples - cursor.taken;
    if (inside && before >= 0 && before % epoch == 0 && before / epoch == cursor.epoch) {
      return cursor;
    }
    throw Error(
        ErrorKind::refused, "data cursor",
        fmt::format("found epoch {}, {} taken, {} samples; expected whole steps of {} samples "
                    "in epochs of {}",
                    cursor.epoch, cursor.taken, cursor.samples, step_, epoch));
  }

 private:
  const std::int64_t size_;
  const std::uint64_t seed_;
  const LastBatch last_;
  const std::int64_t step_;  // samples of a global batch
  std::optional<EpochOrder> order_;
  std::int64_t order_epoch_ = 0;
};

}  // namespace

Digest chain(const Digest& before, const std::vector<std::int64_t>& ids) {
  std::vector<std::uint8_t> bytes(before.bytes.begin(), before.bytes.end());
  for (const std::int64_t id : ids) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(id) >> shift));
    }
  }
  return sha256(bytes.data(), bytes.size());
}

std::unique_ptr<Sequence> make_sequence(const Dataset& dataset, const LoaderConfig& config) {
  if (!dataset.sources().empty()) return make_mixed_sequence(dataset.sources(), config);
  return std::make_unique<EpochSequence>(dataset.size(), config);
}

}  // namespace shardproof
