// weights_file: weights as one plain safetensors file: every parameter whole, by its own name, as
// other programs read and write them. Weights are not a training state: an imported checkpoint has
// no moments, no step and no cursor, and only begins another run (recut.h).
// Torch-free. Thread rule: as load.h.
#pragma once

#include <string>

#include "checkpoint/load.h"
#include "checkpoint/save.h"

namespace shardproof {

struct WeightsFile {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;  // of the file
  Digest sha256;
};

// Joins the pieces of every parameter of a checkpoint; every block is verified. `path`, in `out`,
// must not exist (Error conflict) and appears whole or not at all.
// Memory: the largest parameter, twice.
WeightsFile export_weights(Storage& storage, const Manifest& manifest, Storage& out,
                           const std::string& path);

// Writes a checkpoint of weights alone, by one rank, from such a file: float32 tensors, any names.
// Its origin says the file's name and SHA-256. Error corrupt | refused naming the tensor; conflict
// as save_checkpoint. Memory: the file.
SaveReport import_weights(Storage& in, const std::string& path, Storage& storage,
                          Communicator& comm, const std::string& id);

// Holds weights and nothing else.
bool weights_alone(const Manifest& manifest);

}  // namespace shardproof
