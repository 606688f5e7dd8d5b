// mixed_sequence: steps of a mixture. Position p of the run draws from the source that the mixture
// of the weights in force gives at p - since, and takes that source's next sample: the order over
// all ranks is a function of seed, weights, sources and position, and a cursor is its position with
// what led there before the weights in force. Thread rule: as Sequence.
#pragma once

#include <optional>
#include <string>

#include "data/sequence.h"

namespace shardproof {

struct CursorProblem {
  std::string field;  // "sources[1].taken"
  std::string expected;
  std::string found;
};

// What contradicts itself in a mixture's cursor: each source must have given what the mixture of
// its weights, under this seed, draws from it. Sizes, names and digests are believed.
std::optional<CursorProblem> mixed_cursor_problem(const DataCursor& cursor, std::uint64_t seed);

}  // namespace shardproof
