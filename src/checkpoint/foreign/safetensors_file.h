// safetensors_file: safetensors files of anybody, all dtypes of the format, and the index that
// Hugging Face writes beside several of them. Thread rule: one thread.
#pragma once

#include <string>

#include "checkpoint/foreign/checkpoint.h"

namespace shardproof::foreign {

bool looks_like_safetensors(std::span<const std::byte> file);

// Adds the file's tensors and everything that is wrong with it, tensor by tensor.
void read_safetensors_file(Checkpoint& checkpoint, const std::string& file);

// `index` maps names to files: each must be there, once, and nothing else.
void read_safetensors_index(Checkpoint& checkpoint, const std::string& index);

}  // namespace shardproof::foreign
