// foreign: other people's checkpoints, whatever their format: found out by what they say of
// themselves, read and checked. Thread rule: one thread.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/foreign/checkpoint.h"
#include "checkpoint/manifest.h"

namespace shardproof::foreign {

// "dcp", "torch.save", "safetensors", "safetensors index", "llm.c"; "" when it is none of them.
// Error io when it cannot be looked at.
std::string format_of(const std::string& path);

// Reads it whole: what is wrong with it is in its damages, by tensor. Error bad_input naming `path`
// when it is of no format that is known.
Checkpoint read_foreign(const std::string& path);

// The parameters of one of ours, which was verified: moments have no names that others share.
Checkpoint view_of(const std::string& directory, const Manifest& manifest);

// Of its elements in row-major order, however they lie in files. The checkpoint has no damages.
Digest digest_of(Checkpoint& checkpoint, const Tensor& tensor);

// By name: what is on one side only, of another type or shape, and the first element that differs.
std::vector<StateDifference> diff_foreign(Checkpoint& left, Checkpoint& right);

}  // namespace shardproof::foreign
