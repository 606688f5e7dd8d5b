// mixed_dataset: several datasets as one: sample `id` is sample id - first of the source that holds
// it, so an id names source and sample, and is no other's. The weights are carried along, not used
// here. Thread rule: immutable.
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"

namespace shardproof {

// Of the order and the synthetic samples of a source: a function of (seed, name), so a source is
// the same beside any others.
std::uint64_t source_seed(std::uint64_t seed, const std::string& name);

// Of what sample ids mean: names, sizes and digests in order. Weights are not part of it.
Digest mixture_digest(const std::vector<Source>& sources);

struct NamedDataset {
  std::string name;
  double weight = 1;
  std::shared_ptr<const Dataset> dataset;
};

// `seed`: of the mixture; sources have theirs by source_seed(). Error bad_input, naming both, when
// tokenizers differ. Precondition: at least one; all packed, or none.
std::shared_ptr<const Dataset> make_mixed(std::vector<NamedDataset> datasets, std::uint64_t seed);

}  // namespace shardproof
