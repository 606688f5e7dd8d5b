// synthetic: the cycles and the numbers that a row is drawn from.
#include "data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/batch.h"
#include "base/check.h"
#include "base/json.h"
#include "base/philox.h"

namespace shardproof {
namespace {

constexpr int period = 16;
constexpr int cycles = 3;
constexpr std::int32_t open_slot = -1;
constexpr std::array<int, 6> counts = {6, 3, 2, 2, 1, 1};       // with one open slot: a period
constexpr std::array<std::uint64_t, cycles> upto = {5, 8, 10};  // of 10 rows: 5, 3 and 2
// A row's numbers are drawn at id << position_bits | position.
constexpr int position_bits = 24;

template <typename T>
void shuffle(std::vector<T>& items, const Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1], items[random.below(i, i)]);
  }
}

class Synthetic : public Dataset {
 public:
  Synthetic(const DatasetConfig& config, int length, int vocabulary, std::uint64_t seed)
      : config_(config),
        length_(length),
        vocabulary_(vocabulary),
        seed_(seed),
        row_(seed, Purpose::corpus, stream_id("row")),
        open_(seed, Purpose::corpus, stream_id("open")),
        ignored_(seed, Purpose::corpus, stream_id("ignored")) {
    SP_CHECK(length < (1 << position_bits), fmt::format("length {}", length));
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(vocabulary));
    for (int token = 0; token < vocabulary; ++token) {
      tokens[static_cast<std::size_t>(token)] = token;
    }
    shuffle(tokens, Random(seed, Purpose::corpus, stream_id("tokens")));
    std::vector<std::int32_t> slots = {open_slot};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      slots.insert(slots.end(), static_cast<std::size_t>(counts[i]), tokens[i % tokens.size()]);
    }
    SP_CHECK_EQ(slots.size(), std::size_t{period});
    for (std::uint32_t cycle = 0; cycle < cycles; ++cycle) {
      cycles_[cycle] = slots;
      shuffle(cycles_[cycle], Random(seed, Purpose::corpus, stream_id("cycle"), cycle));
    }
  }

  std::int64_t size() const override { return config_.samples; }
  int vocabulary() const override { return vocabulary_; }
  bool packed() const override { return false; }
  std::string tokenizer() const override { return fmt::format("synthetic/{}", vocabulary_); }

  Digest digest() const override {
    return sha256(fmt::format("synthetic 1 seed={} samples={} ignored={} length={} vocabulary={}",
                              seed_, config_.samples, bits_hex(config_.ignored), length_,
                              vocabulary_));
  }

  void sample(std::int64_t id, const SampleView& out) const override {
    SP_CHECK(id >= 0 && id < size(), fmt::format("sample {} of {}", id, size()));
    const std::uint64_t base = static_cast<std::uint64_t>(id) << position_bits;
    const auto kind = std::upper_bound(upto.begin(), upto.end(), row_.below(upto.back(), base));
    const auto& cycle = cycles_[static_cast<std::size_t>(kind - upto.begin())];
    const std::uint64_t phase = row_.below(period, base + 1);
    const double share = ignored_share(row_.uniform(base + 8), row_.uniform(base + 9));
    const auto token = [&](std::uint64_t position) {
      const std::int32_t slot = cycle[(phase + position) % period];
      if (slot != open_slot) return slot;
      return static_cast<std::int32_t>(
          open_.below(static_cast<std::uint64_t>(vocabulary_), base + position));
    };
    for (int position = 0; position < length_; ++position) {
      const auto i = static_cast<std::size_t>(position);
      out.tokens[i] = token(i);
      out.targets[i] = ignored_.uniform(base + i) < share ? MicroBatch::ignored : token(i + 1);
      out.positions[i] = position;
    }
  }

 private:
  // Mean: config.ignored. Up to one half, 2 x ignored of the rows lose any share of their targets
  // and the others none; above, every row loses a share.
  double ignored_share(double which, double share) const {
    const double mean = config_.ignored;
    if (mean <= 0.5) return which < 2 * mean ? share : 0;
    return 1 - (2 - 2 * mean) * share;
  }

  const DatasetConfig config_;
  const int length_;
  const int vocabulary_;
  const std::uint64_t seed_;
  const Random row_;
  const Random open_;
  const Random ignored_;
  std::array<std::vector<std::int32_t>, cycles> cycles_;
};

}  // namespace

std::shared_ptr<const Dataset> make_synthetic(const DatasetConfig& config, int length,
                                              int vocabulary, std::uint64_t seed) {
  return std::make_shared<Synthetic>(config, length, vocabulary, seed);
}

}  // namespace shardproof
