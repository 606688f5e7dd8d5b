// mixed_dataset: finds the source of an id.
#include "data/mixed_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

class MixedDataset : public Dataset {
 public:
  MixedDataset(std::vector<NamedDataset> datasets, std::uint64_t seed)
      : datasets_(std::move(datasets)) {
    SP_CHECK(!datasets_.empty(), "a mixture of no source");
    const NamedDataset& first = datasets_.front();
    for (const NamedDataset& each : datasets_) {
      SP_CHECK_EQ(each.dataset->packed(), first.dataset->packed());
      if (each.dataset->tokenizer() != first.dataset->tokenizer()) {
        throw Error(
            ErrorKind::bad_input, "data.sources",
            fmt::format("source {} has tokenizer {}; expected {} as source {} has it", each.name,
                        each.dataset->tokenizer(), first.dataset->tokenizer(), first.name));
      }
      sources_.push_back({each.name, each.weight, size_, each.dataset->size(),
                          source_seed(seed, each.name), each.dataset->digest()});
      size_ += each.dataset->size();
    }
  }

  std::int64_t size() const override { return size_; }
  int vocabulary() const override { return datasets_.front().dataset->vocabulary(); }
  bool packed() const override { return datasets_.front().dataset->packed(); }
  std::string tokenizer() const override { return datasets_.front().dataset->tokenizer(); }
  Digest digest() const override { return mixture_digest(sources_); }
  const std::vector<Source>& sources() const override { return sources_; }

  void sample(std::int64_t id, const SampleView& out) const override {
    SP_CHECK(id >= 0 && id < size_, fmt::format("sample {} of {}", id, size_));
    const auto after = std::upper_bound(
        sources_.begin(), sources_.end(), id,
        [](std::int64_t value, const Source& source) { return value < source.first; });
    const auto at = static_cast<std::size_t>(after - sources_.begin()) - 1;
    datasets_[at].dataset->sample(id - sources_[at].first, out);
  }

 private:
  const std::vector<NamedDataset> datasets_;
  std::vector<Source> sources_;
  std::int64_t size_ = 0;
};

}  // namespace

std::uint64_t source_seed(std::uint64_t seed, const std::string& name) {
  const Digest digest = sha256(fmt::format("source seed={} name={}", seed, name));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(value); ++i) value = value << 8 | digest.bytes[i];
  return value;
}

Digest mixture_digest(const std::vector<Source>& sources) {
  std::string text = "mixture 1";
  for (const Source& source : sources) {
    text += fmt::format(" {} size={} digest={}", source.name, source.size, source.digest.hex());
  }
  return sha256(text);
}

std::shared_ptr<const Dataset> make_mixed(std::vector<NamedDataset> datasets, std::uint64_t seed) {
  return std::make_shared<MixedDataset>(std::move(datasets), seed);
}

}  // namespace shardproof
