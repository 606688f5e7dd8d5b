// windows: rows of a token stream, plain or packed.
#include "data/windows.h"

#include <fmt/format.h>

#include "base/batch.h"
#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

class Windows : public Dataset {
 public:
  Windows(TokenStream stream, WindowsConfig config)
      : stream_(std::move(stream)), config_(std::move(config)) {
    if (stream_.size() < config_.length + 1) {
      throw Error(ErrorKind::bad_input, stream_.path(),
                  fmt::format("holds {} tokens; expected at least {} (a sequence of {} and the "
                              "target after it)",
                              stream_.size(), config_.length + 1, config_.length));
    }
  }

  std::int64_t size() const override { return (stream_.size() - 1) / config_.length; }
  int vocabulary() const override { return config_.vocabulary; }
  bool packed() const override { return config_.document_end != nullptr; }
  std::string tokenizer() const override { return config_.tokenizer; }

  Digest digest() const override {
    return sha256(fmt::format("windows 1 file={} tokenizer={} documents={} length={} vocabulary={}",
                              stream_.digest().hex(), config_.tokenizer, config_.documents,
                              config_.length, config_.vocabulary));
  }

  void sample(std::int64_t id, const SampleView& out) const override {
    SP_CHECK(id >= 0 && id < size(), fmt::format("sample {} of {}", id, size()));
    const std::int64_t begin = id * config_.length;
    std::int32_t position = 0;
    std::int32_t document = 0;
    for (int offset = 0; offset < config_.length; ++offset) {
      const auto i = static_cast<std::size_t>(offset);
      const bool last = packed() && config_.document_end(stream_, begin + offset);
      out.tokens[i] = stream_[begin + offset];
      out.targets[i] = last ? MicroBatch::ignored : stream_[begin + offset + 1];
      out.positions[i] = position;
      if (packed()) out.documents[i] = document;
      position = last ? 0 : position + 1;
      document += last ? 1 : 0;
    }
  }

 private:
  const TokenStream stream_;
  const WindowsConfig config_;
};

}  // namespace

bool ends_at_blank_line(const TokenStream& stream, std::int64_t index) {
  return index > 0 && stream[index] == '\n' && stream[index - 1] == '\n' &&
         stream[index + 1] != '\n';
}

std::shared_ptr<const Dataset> make_windows(TokenStream stream, WindowsConfig config) {
  return std::make_shared<Windows>(std::move(stream), std::move(config));
}

}  // namespace shardproof
