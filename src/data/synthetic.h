// synthetic: a seeded corpus that a small model learns in a few steps. A row walks one of three
// cycles of 16 tokens from a phase of its own. The cycles arrange the same few tokens, of very
// unequal frequency, in three ways; one slot of each is open and takes any token of the vocabulary.
// So the frequencies of a row hardly vary (a loss curve without noise), a token is predictable from
// those before it, rows differ from each other, and every embedding is used.
// Ignored targets are ragged: few rows have many, most have none.
// Every value is a function of (seed, sample id, position). Thread rule: immutable.
#pragma once

#include <memory>

#include "data/dataset.h"

namespace shardproof {

std::shared_ptr<const Dataset> make_synthetic(const DatasetConfig& config, int length,
                                              int vocabulary, std::uint64_t seed);

}  // namespace shardproof
