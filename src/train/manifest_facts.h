// manifest_facts: whether what a manifest says is of one piece. A manifest's digest shows that it
// was not changed after it was sealed, not that one program wrote all of it: every fact that
// follows from another is compared with it. Torch-free. Thread rule: pure functions.
// Compared, where there is a config or a run line at all: the id, step, schedule, cursor, seeds,
// packing, parameter groups, layout and run line with the config; the set of pieces with the
// model's shape; the shard files with the layout; of a mixture, what each source gave with its
// weight and the step, and the data digest with those of the sources. Not compared, because nothing
// else in a manifest says it: data (of a source), tokenizer and template digests, the origin,
// versions, kernels, the cursor's ledger.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"

namespace shardproof {

// Facts that contradict each other: `where` names both fields, `expected` is what the second one
// demands of the first. Of the pieces, the first that is wrong.
std::vector<Damage> contradictions(const CheckpointFacts& facts);
std::vector<Damage> contradictions(const Manifest& manifest);  // of its facts and the rest

// Every byte against the manifest, then its facts against each other. Empty: it is whole.
std::vector<Damage> damages_of(Storage& storage, const std::string& id);

// Error refused at `place`, naming the first contradiction.
void require_consistent(const std::vector<Damage>& contradictions, const std::string& place);

}  // namespace shardproof
