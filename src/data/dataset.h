// dataset: a finite set of samples, each a function of its id. A sample of length T is T input
// tokens and T targets. Datasets: a seeded synthetic corpus with structure that can be learnt, a
// text file through a byte tokenizer (vocabulary 256), token files (nanoGPT's headerless uint16
// .bin; llm.c's header 20240520), packed documents over any of the two files, and a mixture of
// several sources, whose samples are numbered one source after the other.
// Thread rule: immutable; sample() may be called from several threads.
// Not checked: that a file stays as it is while it is open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"

namespace shardproof {

struct SampleView {
  std::span<std::int32_t> tokens;   // each of length T
  std::span<std::int32_t> targets;  // MicroBatch::ignored where there is none
  std::span<std::int32_t> positions;
  std::span<std::int32_t> documents;  // empty unless packed
};

// A source of a mixture: samples [first, first + size) of it, an epoch order of its own.
struct Source {
  std::string name;
  double weight = 1;  // relative to the others, >= 0
  std::int64_t first = 0;
  std::int64_t size = 0;
  std::uint64_t seed = 0;  // of its order, and of its samples where they are drawn
  Digest digest;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;  // samples in an epoch, > 0
  virtual int vocabulary() const = 0;
  virtual bool packed() const = 0;
  virtual void sample(std::int64_t id, const SampleView& out) const = 0;
  virtual Digest digest() const = 0;          // of everything that determines the samples
  virtual std::string tokenizer() const = 0;  // its name; its digest is of name and parameters
  Digest tokenizer_digest() const { return sha256(tokenizer()); }
  // Of a mixture, in order of their samples; else empty. Then size() is the sum of theirs.
  virtual const std::vector<Source>& sources() const;
};

struct SourceConfig {
  std::string name;
  double weight = 1;
  std::string kind = "synthetic";  // and so on, as below
  std::string path;
  std::int64_t samples = 4096;
};

struct DatasetConfig {
  std::string kind = "synthetic";  // synthetic | text | tokens
  std::string path;                // of a text or token file
  std::int64_t samples = 4096;     // of the synthetic corpus
  double ignored = 0.1;            // synthetic: share of targets that are ignored (ragged batches)
  bool packed = false;             // documents: block mask, positions restart
  int end_token = 0;               // packed token files: the last token of a document
  std::vector<SourceConfig> sources{};  // a mixture of these in place of kind, path and samples
};

// Error bad_input naming the file, the place (byte or token index) and what was expected: an empty
// or too short file, a token >= vocabulary, a broken header, an odd size, sources whose tokenizers
// differ.
std::shared_ptr<const Dataset> open_dataset(const DatasetConfig& config, int length, int vocabulary,
                                            std::uint64_t seed);

}  // namespace shardproof
