// checkpoint: see the header.
#include "checkpoint/foreign/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"

namespace shardproof::foreign {
namespace {

struct Known {
  const char* name;
  const char* torch;
  std::size_t bytes;
};

constexpr std::array<Known, 20> known{{{"F32", "float32", 4},
                                       {"F64", "float64", 8},
                                       {"BF16", "bfloat16", 2},
                                       {"F16", "float16", 2},
                                       {"I64", "int64", 8},
                                       {"I32", "int32", 4},
                                       {"I16", "int16", 2},
                                       {"I8", "int8", 1},
                                       {"U8", "uint8", 1},
                                       {"U16", "uint16", 2},
                                       {"U32", "uint32", 4},
                                       {"U64", "uint64", 8},
                                       {"BOOL", "bool", 1},
                                       {"F8_E4M3", "float8_e4m3fn", 1},
                                       {"F8_E5M2", "float8_e5m2", 1},
                                       {"F8_E8M0", "float8_e8m0fnu", 1},
                                       {"C64", "complex64", 8},
                                       {"C128", "complex128", 16},
                                       {"F8_E4M3FNUZ", "float8_e4m3fnuz", 1},
                                       {"F8_E5M2FNUZ", "float8_e5m2fnuz", 1}}};

bool in_bounds(const Box& box, const Shape& shape) {
  if (box.offsets.size() != shape.size() || box.shape.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (box.offsets[i] < 0 || box.shape[i] < 0 || box.shape[i] > shape[i] ||
        box.offsets[i] > shape[i] - box.shape[i]) {
      return false;
    }
  }
  return true;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.offsets[i] >= b.offsets[i] + b.shape[i] || b.offsets[i] >= a.offsets[i] + a.shape[i]) {
      return false;
    }
  }
  return true;
}

bool holds(const Box& box, const Shape& index) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (index[i] < box.offsets[i] || index[i] >= box.offsets[i] + box.shape[i]) return false;
  }
  return true;
}

std::string words(const Box& box) {
  return fmt::format("[{}] at [{}]", fmt::join(box.shape, ","), fmt::join(box.offsets, ","));
}

// The first index that no chunk has: one of those where a chunk ends, or 0, in every dimension.
// None when there would be too many to try.
std::optional<Shape> find_hole(const Tensor& tensor) {
  std::vector<std::vector<std::int64_t>> ends(tensor.shape.size(), {0});
  std::size_t tries = 1;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (const Chunk& chunk : tensor.chunks) {
      const std::int64_t end = chunk.box.offsets[i] + chunk.box.shape[i];
      if (end < tensor.shape[i]) ends[i].push_back(end);
    }
    std::sort(ends[i].begin(), ends[i].end());
    ends[i].erase(std::unique(ends[i].begin(), ends[i].end()), ends[i].end());
    tries *= ends[i].size();
    if (tries * tensor.chunks.size() > 10'000'000) return std::nullopt;
  }
  Shape index(tensor.shape.size());
  for (std::size_t at = 0; at < tries; ++at) {
    std::size_t rest = at;
    for (std::size_t i = index.size(); i-- > 0;) {
      index[i] = ends[i][rest % ends[i].size()];
      rest /= ends[i].size();
    }
    if (std::none_of(tensor.chunks.begin(), tensor.chunks.end(),
                     [&](const Chunk& chunk) { return holds(chunk.box, index); })) {
      return index;
    }
  }
  return std::nullopt;
}

void check_cover(Checkpoint& checkpoint, const Tensor& tensor) {
  const std::int64_t elements = checked_elements(tensor.shape);
  std::int64_t covered = 0;
  const auto& chunks = tensor.chunks;
  for (const Chunk& chunk : chunks) {
    if (!in_bounds(chunk.box, tensor.shape)) {
      return checkpoint.damage(tensor.name,
                               fmt::format("chunks within [{}]", fmt::join(tensor.shape, ",")),
                               "a chunk out of bounds, " + words(chunk.box));
    }
    covered += element_count(chunk.box.shape);
  }
  std::vector<const Chunk*> sorted;
  for (const Chunk& chunk : chunks) {
    if (element_count(chunk.box.shape) > 0) sorted.push_back(&chunk);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Chunk* a, const Chunk* b) { return a->box.offsets < b->box.offsets; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = i + 1; j < sorted.size(); ++j) {
      const Box &a = sorted[i]->box, &b = sorted[j]->box;
      if (!a.shape.empty() && b.offsets[0] >= a.offsets[0] + a.shape[0]) break;
      if (overlap(a, b)) {
        return checkpoint.damage(tensor.name, "chunks that do not overlap",
                                 "an overlap: " + words(a) + " and " + words(b));
      }
    }
  }
  if (covered == elements) return;
  const auto hole = find_hole(tensor);
  checkpoint.damage(
      tensor.name, fmt::format("chunks of {} elements", elements),
      fmt::format("a hole: {} elements are in no chunk{}", elements - covered,
                  hole ? fmt::format(", the first at [{}]", fmt::join(*hole, ",")) : ""));
}

}  // namespace

ElementType element_type(const std::string& name) {
  for (const Known& type : known) {
    if (name == type.name || name == type.torch) return {type.name, type.bytes};
  }
  return {name, 0};
}

std::string words(const ElementType& type, const Shape& shape) {
  return fmt::format("{} [{}]", type.name, fmt::join(shape, ","));
}

std::int64_t checked_elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return -1;
  }
  // A 0 anywhere is no overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return -1;
  }
  return count > (std::int64_t{1} << 58) ? -1 : count;  // times 16 bytes is within 63 bits
}

void Checkpoint::damage(std::string where, std::string expected, std::string found) {
  damages.push_back({std::move(where), std::move(expected), std::move(found)});
}

std::shared_ptr<FileMap> Checkpoint::open(const std::string& file) {
  const auto at = files.find(file);
  if (at != files.end()) return at->second;
  std::shared_ptr<FileMap> map;
  try {
    map = std::make_shared<FileMap>(folder + "/" + file);
  } catch (const Error& error) {
    damage(file, "a file that can be read", error.detail());
  }
  files[file] = map;
  return map;
}

void Checkpoint::add(Tensor tensor) {
  const std::string name = tensor.name;
  if (!tensors.emplace(name, std::move(tensor)).second) {
    damage(name, "a tensor once", "it is there twice");
  }
}

void check_coverage(Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (checked_elements(tensor.shape) < 0) {
      checkpoint.damage(name, "a shape of at most 2^58 elements", words(tensor.type, tensor.shape));
    } else if (std::none_of(tensor.chunks.begin(), tensor.chunks.end(),
                            [](const Chunk& chunk) { return chunk.run.size() > 0; })) {
      check_cover(checkpoint, tensor);
    }
  }
}

}  // namespace shardproof::foreign
