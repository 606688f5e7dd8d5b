// tensor_place: what the trace's events and its tensor files share in describing where a tensor
// lies: the checks on a place, its counts, and the JSON members both read. Thread rule: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/event.h"

namespace shardproof {

// The box lies in the global shape and the range in the box, without overflow: else Error corrupt.
void check_place(const TensorPlace& place, const std::string& where);

std::int64_t element_count(const TensorPlace& place);

// How many block digests stand for the tensor: those of a run from a block boundary; 0 where one
// digest stands for the whole.
std::int64_t digest_blocks(const TensorPlace& place);

// Members that must be there with the given form: Error corrupt naming `where` and the key.
std::vector<std::int64_t> integers_member(const Json& object, const char* key,
                                          const std::string& where);
ElementRange range_member(const Json& object, const char* key, const std::string& where);
int piece_member(const Json& object, const std::string& where);  // "piece", 0 when absent

}  // namespace shardproof
