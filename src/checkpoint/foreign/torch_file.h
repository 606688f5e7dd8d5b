// torch_file: what torch.save writes since PyTorch 1.6: a zip archive with a pickle and the bytes
// of each storage. Tensors are found in the pickle without executing it, each checked against its
// storage. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/foreign/checkpoint.h"

namespace shardproof::foreign {

// Bytes [begin, end) of a file of the checkpoint are such an archive: its tensors are added, by the
// keys that lead to them ("model.weight"; `prefix` alone where the archive is one tensor), and what
// is wrong with them.
void read_torch_archive(Checkpoint& checkpoint, const std::string& file, std::uint64_t begin,
                        std::uint64_t end, const std::string& prefix);

// A whole file; says when it is one of nanoGPT's, and whether that is what its model_args say.
void read_torch_file(Checkpoint& checkpoint, const std::string& file);

}  // namespace shardproof::foreign
