// checkpoint: what all readers of other people's checkpoints give: the tensors, where each part of
// them lies, and everything that is wrong, by name. Nothing is executed, and no size is believed
// before it was compared with the file. Thread rule: one thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/piece.h"
#include "checkpoint/foreign/file_map.h"
#include "checkpoint/load.h"

namespace shardproof::foreign {

struct ElementType {
  std::string name;       // "F32", as safetensors has it; others by their own name
  std::size_t bytes = 0;  // of an element
  bool operator==(const ElementType&) const = default;
};
// "F32" or "float32"; size 0 where it is not known.
ElementType element_type(const std::string& name);

// A box of a tensor in a file, or (ours) a run of its elements.
struct Chunk {
  Box box;
  ElementRange run;  // of the box, flattened; empty: all of it
  std::string file;  // within the checkpoint's folder
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<std::int64_t> strides{};  // in elements; empty: row-major
};

struct Tensor {
  std::string name;
  ElementType type;
  Shape shape;
  std::vector<Chunk> chunks;
};

struct Checkpoint {
  std::string format;
  std::string folder;  // that files are in
  std::map<std::string, Tensor> tensors;
  std::vector<Damage> damages;
  std::vector<std::string> notes;  // what is not wrong, but worth knowing
  std::map<std::string, std::shared_ptr<FileMap>> files;

  void damage(std::string where, std::string expected, std::string found);
  // Maps a file once; what cannot be read is a damage, and null.
  std::shared_ptr<FileMap> open(const std::string& file);
  // Adds it unless its name is there already, which is a damage.
  void add(Tensor tensor);
};

// Shape and type in words: "F32 [2,3]".
std::string words(const ElementType& type, const Shape& shape);
// Elements of a shape of somebody else; -1 where it is negative or overflows.
std::int64_t checked_elements(const Shape& shape);

// Whether the chunks of every tensor cover it once: a chunk out of bounds, an overlap and a hole
// are damages with an index. Chunks that are runs are not looked at.
void check_coverage(Checkpoint& checkpoint);

}  // namespace shardproof::foreign
