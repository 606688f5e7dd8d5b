// tensor_digest: what a tensor event says of a tensor's contents. Thread rule: pure.
#pragma once

#include "trace/writer.h"

namespace shardproof {

// SHA-256 of the bytes as they lie: per 1,024-element block for a run from a block boundary, else
// one. The norm is the 2-norm: squares added up in fp64, in element order; a NaN has one pattern.
TensorRecord digest_tensor(std::int64_t step, const std::string& what, const TensorView& view);

}  // namespace shardproof
