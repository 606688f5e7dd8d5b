// dataset: a finite set of samples, each a function of its id. A sample of length T is T input
// tokens and T targets. Datasets: a seeded synthetic corpus with structure that can be learnt, a
// text file through a byte tokenizer (vocabulary 256), token files (nanoGPT's headerless uint16
// .bin; llm.c's header 20240520), and packed documents over any of the two files.
// Thread rule: immutable; sample() may be called from several threads.
// Not checked: that a file stays as it is while it is open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/digest.h"

namespace shardproof {

struct SampleView {
  std::span<std::int32_t> tokens;   // each of length T
  std::span<std::int32_t> targets;  // MicroBatch::ignored where there is none
  std::span<std::int32_t> positions;
  std::span<std::int32_t> documents;  // empty unless packed
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
};

struct DatasetConfig {
  std::string kind = "synthetic";  // synthetic | text | tokens
  std::string path;                // of a text or token file
  std::int64_t samples = 4096;     // of the synthetic corpus
  double ignored = 0.1;            // synthetic: share of targets that are ignored (ragged batches)
  bool packed = false;             // documents: block mask, positions restart
  int end_token = 0;               // packed token files: the last token of a document
};

// Error bad_input naming the file, the place (byte or token index) and what was expected: an empty
// or too short file, a token >= vocabulary, a broken header, an odd size.
std::shared_ptr<const Dataset> open_dataset(const DatasetConfig& config, int length, int vocabulary,
                                            std::uint64_t seed);

}  // namespace shardproof
