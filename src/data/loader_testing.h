// loader_testing: for tests of the loader: a dataset whose tokens name their sample, and batches as
// values.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/loader.h"

namespace shardproof {

using Ids = std::vector<std::int64_t>;

// Tokens tell the sample and the position; sample `broken` throws, sample `slow` waits.
class Numbered : public Dataset {
 public:
  explicit Numbered(std::int64_t size, bool packed = false) : size_(size), packed_(packed) {}
  std::int64_t size() const override { return size_; }
  int vocabulary() const override { return 1 << 20; }
  bool packed() const override { return packed_; }
  Digest digest() const override { return sha256("numbered"); }
  std::string tokenizer() const override { return "numbered"; }
  void sample(std::int64_t id, const SampleView& out) const override {
    if (id == broken) throw Error(ErrorKind::io, "sample", std::to_string(id));
    if (id == slow) released.wait();
    for (std::size_t i = 0; i < out.tokens.size(); ++i) {
      out.tokens[i] = static_cast<std::int32_t>(id * 100 + static_cast<std::int64_t>(i));
      out.targets[i] = out.tokens[i] + 1;
      out.positions[i] = static_cast<std::int32_t>(i);
      if (packed_) out.documents[i] = 1;
    }
  }

  std::int64_t broken = -1;
  std::int64_t slow = -1;
  std::shared_future<void> released;

 private:
  std::int64_t size_;
  bool packed_;
};

inline LoaderConfig config_of(int micro_batches, int rows, LastBatch last, int workers = 0) {
  LoaderConfig config;
  config.micro_batches = micro_batches;
  config.rows = rows;
  config.length = 4;
  config.seed = 3;
  config.last = last;
  config.workers = workers;
  return config;
}

inline std::vector<int> all_of(int micro_batches) {
  std::vector<int> all(static_cast<std::size_t>(micro_batches));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline Ids ids_of(const std::vector<MicroBatch>& batches) {
  Ids ids;
  for (const MicroBatch& batch : batches) {
    ids.insert(ids.end(), batch.sample_ids.begin(), batch.sample_ids.end());
  }
  return ids;
}

inline bool same(const std::vector<MicroBatch>& a, const std::vector<MicroBatch>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const MicroBatch& x, const MicroBatch& y) {
        return x.index == y.index && x.rows == y.rows && x.length == y.length &&
               x.tokens == y.tokens && x.targets == y.targets && x.positions == y.positions &&
               x.documents == y.documents && x.sample_ids == y.sample_ids;
      });
}

}  // namespace shardproof
