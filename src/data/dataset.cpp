// dataset: opens the dataset that a config asks for.
#include "data/dataset.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/mixed_dataset.h"
#include "data/synthetic.h"
#include "data/windows.h"

namespace shardproof {
namespace {

constexpr int byte_vocabulary = 256;

[[noreturn]] void refuse(const std::string& detail) {
  throw Error(ErrorKind::bad_input, "data", detail);
}

std::shared_ptr<const Dataset> open_text(const DatasetConfig& config, int length, int vocabulary) {
  if (vocabulary < byte_vocabulary) {
    refuse(fmt::format("found a vocabulary of {}; text needs at least {} (one token a byte)",
                       vocabulary, byte_vocabulary));
  }
  WindowsConfig windows{length, vocabulary, "bytes", "none", nullptr};
  if (config.packed) {
    windows.documents = "blank line";
    windows.document_end = ends_at_blank_line;
  }
  return make_windows(TokenStream::open_text(config.path), std::move(windows));
}

std::shared_ptr<const Dataset> open_tokens(const DatasetConfig& config, int length,
                                           int vocabulary) {
  WindowsConfig windows{length, vocabulary, "tokens", "none", nullptr};
  if (config.packed) {
    if (config.end_token < 0 || config.end_token >= vocabulary) {
      refuse(fmt::format("found end_token {}; expected a token below the vocabulary of {}",
                         config.end_token, vocabulary));
    }
    windows.documents = fmt::format("token {}", config.end_token);
    windows.document_end = [end = config.end_token](const TokenStream& stream, std::int64_t i) {
      return stream[i] == end;
    };
  }
  return make_windows(TokenStream::open_tokens(config.path, vocabulary), std::move(windows));
}

std::shared_ptr<const Dataset> open_mixture(const DatasetConfig& config, int length, int vocabulary,
                                            std::uint64_t seed) {
  std::vector<NamedDataset> datasets;
  for (const SourceConfig& source : config.sources) {
    DatasetConfig alone = config;
    alone.sources.clear();
    alone.kind = source.kind;
    alone.path = source.path;
    alone.samples = source.samples;
    datasets.push_back({source.name, source.weight,
                        open_dataset(alone, length, vocabulary, source_seed(seed, source.name))});
  }
  return make_mixed(std::move(datasets), seed);
}

}  // namespace

const std::vector<Source>& Dataset::sources() const {
  static const std::vector<Source> none;
  return none;
}

std::shared_ptr<const Dataset> open_dataset(const DatasetConfig& config, int length, int vocabulary,
                                            std::uint64_t seed) {
  if (length < 1) refuse(fmt::format("found a sequence length of {}; expected >= 1", length));
  if (vocabulary < 1) refuse(fmt::format("found a vocabulary of {}; expected >= 1", vocabulary));
  if (!config.sources.empty()) return open_mixture(config, length, vocabulary, seed);
  if (config.kind == "text") return open_text(config, length, vocabulary);
  if (config.kind == "tokens") return open_tokens(config, length, vocabulary);
  if (config.kind != "synthetic") {
    refuse(fmt::format("found kind \"{}\"; expected synthetic, text or tokens", config.kind));
  }
  if (config.packed) refuse("found packed with kind synthetic; expected kind text or tokens");
  if (config.samples < 1) refuse(fmt::format("found {} samples; expected >= 1", config.samples));
  if (!(config.ignored >= 0 && config.ignored < 1)) {
    refuse(fmt::format("found ignored {}; expected >= 0 and < 1", config.ignored));
  }
  return make_synthetic(config, length, vocabulary, seed);
}

}  // namespace shardproof
