// foreign: see the header.
#include "checkpoint/foreign/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "checkpoint/foreign/dcp.h"
#include "checkpoint/foreign/llm_c.h"
#include "checkpoint/foreign/safetensors_file.h"
#include "checkpoint/foreign/torch_file.h"
#include "checkpoint/foreign/zip.h"

namespace shardproof::foreign {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t slab = 1 << 18;  // elements read at once
constexpr const char* index_end = ".safetensors.index.json";

struct Kind {
  std::string format;
  std::string folder;
  std::vector<std::string> files;  // within it
};

Kind kind_of_folder(const std::string& path) {
  Kind kind{"", path, {}};
  std::vector<std::string> indexes, singles;
  bool dcp = false;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    // A save that was cut may leave the one or the other alone.
    dcp = dcp || name == dcp_metadata || name.ends_with(".distcp");
    if (name.ends_with(index_end)) indexes.push_back(name);
    if (name.ends_with(".safetensors")) singles.push_back(name);
  }
  std::sort(singles.begin(), singles.end());
  if (dcp) {
    kind.format = "dcp";
  } else if (indexes.size() == 1) {
    kind.format = "safetensors index";
    kind.files = indexes;
  } else if (!singles.empty()) {
    kind.format = "safetensors";
    kind.files = singles;
  }
  return kind;
}

Kind kind_of_file(const std::string& path) {
  const fs::path file(path);
  Kind kind{
      "", file.has_parent_path() ? file.parent_path().string() : ".", {file.filename().string()}};
  const std::string& name = kind.files[0];
  const FileMap map(path);
  const auto bytes = map.bytes();
  if (name.ends_with(index_end)) {
    kind.format = "safetensors index";
  } else if (looks_like_llm_c(bytes)) {
    kind.format = "llm.c";
  } else if (looks_like_zip(bytes) || name.ends_with(".pt") || name.ends_with(".pth")) {
    kind.format = "torch.save";
  } else if (looks_like_safetensors(bytes) || name.ends_with(".safetensors")) {
    kind.format = "safetensors";
  }
  return kind;
}

Kind kind_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return kind_of_folder(path);
  if (fs::is_regular_file(status)) return kind_of_file(path);
  return {"", path, {}};
}

// Elements of a tensor in their global order, from wherever they lie.
class Elements {
 public:
  Elements(Checkpoint& checkpoint, const Tensor& tensor) : tensor_(tensor) {
    for (const Chunk& chunk : tensor.chunks) {
      Source source{.chunk = &chunk, .bytes = {}, .rows = 0, .length = 1, .outer = 0};
      const auto map = chunk.begin < chunk.end ? checkpoint.open(chunk.file) : nullptr;
      if (map) source.bytes = map->bytes().subspan(chunk.begin, chunk.end - chunk.begin);
      const Shape& box = chunk.box.shape;
      std::size_t inner = box.size();  // dimensions [inner, n) are one contiguous row
      while (inner > 0) {
        source.length *= box[--inner];
        if (box[inner] != tensor.shape[inner]) break;
      }
      source.outer = inner;
      source.rows = source.length == 0 ? 0 : element_count(box) / source.length;
      sources_.push_back(source);
    }
  }

  // Elements [lo, hi), as many as `out` has room for.
  void read(std::int64_t lo, std::int64_t hi, std::span<std::byte> out) const {
    for (const Source& source : sources_) read_from(source, lo, hi, out);
  }

 private:
  struct Source {
    const Chunk* chunk;
    std::span<const std::byte> bytes;
    std::int64_t rows;
    std::int64_t length;  // of a row
    std::size_t outer;    // dimensions before the row's
  };

  // Where the row begins in the whole tensor.
  std::int64_t row_begin(const Source& source, std::int64_t row) const {
    const Box& box = source.chunk->box;
    std::int64_t at = 0, stride = 1;
    for (std::size_t i = box.shape.size(); i-- > 0;) {
      std::int64_t index = box.offsets[i];
      if (i < source.outer) {
        index += row % box.shape[i];
        row /= box.shape[i];
      }
      at += index * stride;
      stride *= tensor_.shape[i];
    }
    return at;
  }

  void read_from(const Source& source, std::int64_t lo, std::int64_t hi,
                 std::span<std::byte> out) const {
    const auto width = static_cast<std::int64_t>(tensor_.type.bytes);
    // Rows come in the order of their begins: the first that ends after `lo`.
    std::int64_t row = 0;
    for (std::int64_t end = source.rows; row < end;) {
      const std::int64_t middle = row + (end - row) / 2;
      if (row_begin(source, middle) + source.length <= lo) {
        row = middle + 1;
      } else {
        end = middle;
      }
    }
    const ElementRange run = source.chunk->run.size() > 0
                                 ? source.chunk->run
                                 : ElementRange{0, source.rows * source.length};
    for (; row < source.rows; ++row) {
      const std::int64_t begin = row_begin(source, row);
      if (begin >= hi) return;
      const std::int64_t first = row * source.length;  // within the box
      const ElementRange wanted{std::max({lo - begin + first, first, run.lo}),
                                std::min({hi - begin + first, first + source.length, run.hi})};
      if (wanted.size() <= 0) continue;
      std::byte* to = out.data() + (begin + wanted.lo - first - lo) * width;
      copy(source, wanted, run.lo, to);
    }
  }

  void copy(const Source& source, ElementRange wanted, std::int64_t run_begin,
            std::byte* to) const {
    const auto width = static_cast<std::int64_t>(tensor_.type.bytes);
    const auto& strides = source.chunk->strides;
    if (strides.empty()) {
      const auto part =
          source.bytes.subspan(static_cast<std::size_t>((wanted.lo - run_begin) * width),
                               static_cast<std::size_t>(wanted.size() * width));
      std::copy(part.begin(), part.end(), to);
      return;
    }
    for (std::int64_t element = wanted.lo; element < wanted.hi; ++element, to += width) {
      std::int64_t rest = element, at = 0;
      for (std::size_t i = strides.size(); i-- > 0;) {
        at += rest % source.chunk->box.shape[i] * strides[i];
        rest /= source.chunk->box.shape[i];
      }
      const auto part = source.bytes.subspan(static_cast<std::size_t>(at * width),
                                             static_cast<std::size_t>(width));
      std::copy(part.begin(), part.end(), to);
    }
  }

  const Tensor& tensor_;
  std::vector<Source> sources_;
};

std::string bits(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t i = element.size(); i-- > 0;) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i]));
  }
  return text;
}

std::optional<StateDifference> diff_tensor(Checkpoint& left, const Tensor& a, Checkpoint& right,
                                           const Tensor& b) {
  if (a.type != b.type || a.shape != b.shape) {
    return StateDifference{a.name, -1, words(a.type, a.shape), words(b.type, b.shape)};
  }
  const std::size_t width = a.type.bytes;
  const Elements x(left, a), y(right, b);
  const std::int64_t count = checked_elements(a.shape);
  std::vector<std::byte> p(static_cast<std::size_t>(std::min(slab, count)) * width), q(p.size());
  for (std::int64_t lo = 0; lo < count; lo += slab) {
    const std::int64_t hi = std::min(count, lo + slab);
    x.read(lo, hi, p);
    y.read(lo, hi, q);
    const std::size_t bytes = static_cast<std::size_t>(hi - lo) * width;
    const auto [at, other] =
        std::mismatch(p.begin(), p.begin() + static_cast<long>(bytes), q.begin());
    if (at == p.begin() + static_cast<long>(bytes)) continue;
    const std::size_t element = static_cast<std::size_t>(at - p.begin()) / width;
    return StateDifference{a.name, lo + static_cast<std::int64_t>(element),
                           bits(std::span(p).subspan(element * width, width)),
                           bits(std::span(q).subspan(element * width, width))};
  }
  return std::nullopt;
}

}  // namespace

std::string format_of(const std::string& path) {
  return kind_of(path).format;
}

Checkpoint read_foreign(const std::string& path) {
  const Kind kind = kind_of(path);
  Checkpoint checkpoint{.format = kind.format,
                        .folder = kind.folder,
                        .tensors = {},
                        .damages = {},
                        .notes = {},
                        .files = {}};
  if (kind.format.empty()) {
    throw Error(ErrorKind::bad_input, path,
                "is no checkpoint that is known: a folder of torch.distributed.checkpoint, a file "
                "of torch.save (since 1.6), safetensors with or without an index, a model file of "
                "llm.c");
  }
  const auto read = [&](const auto& reader) {
    try {
      reader();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      checkpoint.damage(error.place(), "whole (" + kind.format + ")", error.detail());
    }
  };
  if (kind.format == "dcp") read([&] { read_dcp(checkpoint); });
  for (const std::string& file : kind.files) {
    if (kind.format == "torch.save") read([&] { read_torch_file(checkpoint, file); });
    if (kind.format == "safetensors") read([&] { read_safetensors_file(checkpoint, file); });
    if (kind.format == "safetensors index") read([&] { read_safetensors_index(checkpoint, file); });
    if (kind.format == "llm.c") read([&] { read_llm_c(checkpoint, file); });
  }
  check_coverage(checkpoint);
  if (checkpoint.tensors.empty() && checkpoint.damages.empty()) {
    checkpoint.damage(path, "at least one tensor", "none");
  }
  return checkpoint;
}

Checkpoint view_of(const std::string& directory, const Manifest& manifest) {
  require_tensors(manifest);
  Checkpoint checkpoint{.format = "shardproof",
                        .folder = directory,
                        .tensors = {},
                        .damages = {},
                        .notes = {},
                        .files = {}};
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.what != "param") continue;
    Tensor& tensor = checkpoint.tensors[entry.name];
    tensor.name = entry.name;
    tensor.type = element_type(std::string(name(entry.dtype)));
    tensor.shape = entry.global_shape;
    tensor.chunks.push_back({.box = entry.box,
                             .run = entry.range,
                             .file = entry.file,
                             .begin = entry.begin,
                             .end = entry.end});
  }
  return checkpoint;
}

Digest digest_of(Checkpoint& checkpoint, const Tensor& tensor) {
  const Elements elements(checkpoint, tensor);
  const std::int64_t count = checked_elements(tensor.shape);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(slab, count)) * tensor.type.bytes);
  Sha256 hash;
  for (std::int64_t lo = 0; lo < count; lo += slab) {
    const std::int64_t hi = std::min(count, lo + slab);
    elements.read(lo, hi, bytes);
    hash.update(bytes.data(), static_cast<std::size_t>(hi - lo) * tensor.type.bytes);
  }
  return hash.finish();
}

std::vector<StateDifference> diff_foreign(Checkpoint& left, Checkpoint& right) {
  std::vector<StateDifference> differences;
  for (const auto& [name, tensor] : left.tensors) {
    const auto other = right.tensors.find(name);
    if (other == right.tensors.end()) {
      differences.push_back({name, -1, words(tensor.type, tensor.shape), "absent"});
    } else if (const auto found = diff_tensor(left, tensor, right, other->second)) {
      differences.push_back(*found);
    }
  }
  for (const auto& [name, tensor] : right.tensors) {
    if (left.tensors.contains(name)) continue;
    differences.push_back({name, -1, "absent", words(tensor.type, tensor.shape)});
  }
  return differences;
}

}  // namespace shardproof::foreign
