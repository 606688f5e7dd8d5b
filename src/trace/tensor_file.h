// tensor_file: the writing half of captured tensor files, and their names. An entry's key is the
// tensor's global name, or NAME#PIECE where one file holds several pieces of it; the metadata entry
// DCP_SHARDING_INFO says for each key where it lies (see place_json). Reading: TensorFile in
// reader.h. Thread rule: pure but for write_tensor_file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trace/writer.h"

namespace shardproof {

// "step_000007.param.rank_00003.safetensors"; step -1 (the initial values) is "step_-00001".
std::string tensor_file_name(std::int64_t step, const std::string& what, int rank);

struct TensorFileName {
  std::int64_t step = 0;
  std::string what;
  int rank = 0;
};
std::optional<TensorFileName> parse_tensor_file_name(const std::string& file);

// A box: {"name", "piece", "saved_offsets", "global_shape"}. A run, whose data is 1-D:
// {"name", "piece", "global_shape", "piece_offsets", "piece_shape", "range": [lo, hi]}.
Json place_json(const TensorPlace& place);

// `shape` is the entry's own. Without `name` the key is the name, without `piece` it is 0. Error
// corrupt naming `where` when the place and the shape do not fit.
TensorPlace place_from_json(const Json& info, const std::string& key, const Shape& shape,
                            const std::string& where);

// Written under another name and renamed: no reader sees half a file. Error io.
// Precondition: no (name, piece) twice.
void write_tensor_file(const std::string& path, std::span<const TensorView> views);

}  // namespace shardproof
