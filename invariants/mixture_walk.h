// mixture_walk: whether the samples that steps took are those of a mixture, source by source: each
// epoch of a source has every sample once, whatever the others do, and after any step a source has
// been taken its share of all samples to within ceil(log2(sources)), as a mixture promises. The
// order within a step is not looked at: ranks may own any rows of it.
// Thread rule: none. Torch-free. Not checked: which sample of a source comes when.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/reader.h"

namespace shardproof {

// As a run event says it: "data" {"sources": [{"name": .., "first": id, "size": .., "weight":
// ..}]}.
struct SourceFact {
  std::string name;
  std::int64_t first = 0;  // ids [first, first + size)
  std::int64_t size = 0;
  double weight = 0;
};

// Of the first rank's run event. Empty: it names no sources. Nothing: what it names is no mixture.
std::optional<std::vector<SourceFact>> source_facts(const Trace& trace);

class MixtureWalk {
 public:
  // `midway`: the first step is not the first of the run. Precondition: as source_facts() gives.
  MixtureWalk(const std::vector<SourceFact>& sources, bool midway);

  // The weights from the next step on; sources that were there keep their samples. What is wrong,
  // else empty.
  std::string remix(const std::vector<SourceFact>& sources);
  // All real samples of a step. What is wrong, else empty.
  std::string step(const std::vector<std::int64_t>& ids);

  const std::string& open() const { return open_; }  // what could not be decided
  std::string epochs() const;                        // "books 2 epochs and 3 samples, ..."

 private:
  struct Source {
    SourceFact fact;
    bool midway = false;  // its epoch was begun elsewhere
    std::set<std::int64_t> seen{};
    std::int64_t epochs = 0;
    std::int64_t taken = 0;  // under the weights in force
  };

  std::string cover(Source& source, const std::vector<std::int64_t>& ids);
  std::string finish_epochs(Source& source, const std::vector<std::int64_t>& ids);
  std::string shares() const;

  std::vector<Source> sources_;
  bool midway_;
  std::int64_t taken_ = 0;  // under the weights in force
  std::string open_;
};

}  // namespace shardproof
