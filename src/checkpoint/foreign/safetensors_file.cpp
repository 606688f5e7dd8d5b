// safetensors_file: see the header. (base/safetensors.h reads our own files: fewer dtypes, and the
// first thing wrong ends it.)
#include "checkpoint/foreign/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/safetensors.h"

namespace shardproof::foreign {
namespace {

constexpr std::uint64_t prefix_bytes = 8;

// A file name of an index: within the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos && name != "." && name != "..";
}

class Reader {
 public:
  Reader(Checkpoint& checkpoint, const std::string& file, std::span<const std::byte> bytes)
      : out_(checkpoint), file_(file), bytes_(bytes) {}

  void read() {
    const std::uint64_t size = bytes_.size();
    const std::uint64_t length = size < prefix_bytes ? 0 : number_at(bytes_, 0, 8);
    if (size < prefix_bytes || length > size - prefix_bytes || length > max_header_bytes) {
      throw Error(ErrorKind::corrupt, file_,
                  fmt::format("a header of {} bytes in a file of {}; it is cut short or none",
                              length, size));
    }
    begin_ = prefix_bytes + length;
    const Json header = parse_json(text_of(bytes_.subspan(prefix_bytes, length)),
                                   file_ + ": header", ErrorKind::corrupt);
    if (!header.is_object()) throw Error(ErrorKind::corrupt, file_, "a header that is no object");
    for (const auto& item : header.items()) {
      if (item.key() != "__metadata__") read_entry(item.key(), item.value());
    }
    check_tiling();
  }

 private:
  struct Range {
    std::uint64_t begin, end;
    std::string name;
    bool operator<(const Range& other) const {
      return std::tie(begin, end, name) < std::tie(other.begin, other.end, other.name);
    }
  };

  void read_entry(const std::string& name, const Json& json) {
    const std::string place = file_ + ": " + name;
    Tensor tensor{.name = name,
                  .type = element_type(string_member(json, "dtype", place)),
                  .shape = {},
                  .chunks = {}};
    const Json& shape = member(json, "shape", place);
    const Json& offsets = member(json, "data_offsets", place);
    bool good = shape.is_array() && offsets.is_array() && offsets.size() == 2 &&
                offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned();
    for (const Json& extent : good ? shape : Json::array()) {
      good = good && extent.is_number_unsigned() && extent.get<std::uint64_t>() >> 62 == 0;
      if (good) tensor.shape.push_back(extent.get<std::int64_t>());
    }
    if (!good) return out_.damage(place, "a shape and two data_offsets", json.dump());
    const auto begin = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
    ranges_.push_back({begin, end, name});
    if (tensor.type.bytes == 0) {
      return out_.notes.push_back(place + ": elements of " + tensor.type.name +
                                  " are not looked at");
    }
    const std::int64_t elements = checked_elements(tensor.shape);
    const std::uint64_t expected = static_cast<std::uint64_t>(elements) * tensor.type.bytes;
    if (elements < 0 || end < begin || end - begin != expected) {
      return out_.damage(place, fmt::format("bytes for {}", words(tensor.type, tensor.shape)),
                         fmt::format("size mismatch: data_offsets [{}, {})", begin, end));
    }
    if (end > bytes_.size() - begin_) {
      return out_.damage(place,
                         fmt::format("bytes [{}, {}) of the file", begin_ + begin, begin_ + end),
                         fmt::format("truncation: the file has {} bytes", bytes_.size()));
    }
    tensor.chunks.push_back({.box = {Shape(tensor.shape.size(), 0), tensor.shape},
                             .run = {},
                             .file = file_,
                             .begin = begin_ + begin,
                             .end = begin_ + end});
    out_.add(std::move(tensor));
  }

  void check_tiling() {
    std::sort(ranges_.begin(), ranges_.end());
    std::uint64_t at = 0;
    std::string before = "the header";
    for (const Range& range : ranges_) {
      if (range.begin != at) {
        const bool overlaps = range.begin < at;
        out_.damage(
            file_ + ": " + range.name,
            fmt::format("data from byte {} on, where {} ends", at, before),
            fmt::format("{}: from byte {} on", overlaps ? "an overlap" : "a hole", range.begin));
      }
      at = std::max(at, range.end);
      before = range.name;
    }
    const std::uint64_t data = bytes_.size() - begin_;
    if (at < data) {
      out_.damage(file_, fmt::format("{} bytes of data, as its tensors have", at),
                  fmt::format("a hole: {} bytes, the last {} of no tensor", data, data - at));
    }
  }

  Checkpoint& out_;
  const std::string file_;
  const std::span<const std::byte> bytes_;
  std::uint64_t begin_ = 0;  // of the data
  std::vector<Range> ranges_;
};

// Each file's own tensors, so that a name in two files is seen.
std::map<std::string, std::set<std::string>> read_shards(Checkpoint& checkpoint,
                                                         const std::set<std::string>& files) {
  std::map<std::string, std::set<std::string>> names;
  for (const std::string& file : files) {
    if (!checkpoint.open(file)) continue;
    Checkpoint shard{.format = {},
                     .folder = checkpoint.folder,
                     .tensors = {},
                     .damages = {},
                     .notes = {},
                     .files = checkpoint.files};
    try {
      read_safetensors_file(shard, file);
    } catch (const Error& error) {
      shard.damage(error.place(), "a safetensors file", error.detail());
    }
    for (auto& damage : shard.damages) checkpoint.damages.push_back(std::move(damage));
    for (auto& note : shard.notes) checkpoint.notes.push_back(std::move(note));
    for (auto& [name, tensor] : shard.tensors) {
      names[file].insert(name);
      checkpoint.add(std::move(tensor));
    }
  }
  return names;
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> file) {
  return file.size() > prefix_bytes && number_at(file, 0, 8) <= max_header_bytes &&
         file[prefix_bytes] == std::byte{'{'};
}

void read_safetensors_file(Checkpoint& checkpoint, const std::string& file) {
  const auto map = checkpoint.open(file);
  if (map) Reader(checkpoint, file, map->bytes()).read();
}

void read_safetensors_index(Checkpoint& checkpoint, const std::string& index) {
  const auto map = checkpoint.open(index);
  if (!map) return;
  const Json json = parse_json(text_of(map->bytes()), index, ErrorKind::corrupt);
  const Json& weights = member(json, "weight_map", index);
  if (!weights.is_object()) throw Error(ErrorKind::corrupt, index, "\"weight_map\" is no object");
  std::set<std::string> files;
  for (const auto& item : weights.items()) {
    const std::string file = string_member(weights, item.key().c_str(), index);
    if (!is_plain_name(file)) {
      throw Error(ErrorKind::corrupt, index + ": " + item.key(),
                  "'" + file + "'; expected the name of a file in its folder");
    }
    files.insert(file);
  }
  const auto names = read_shards(checkpoint, files);
  std::set<std::string> listed;
  for (const auto& item : weights.items()) {
    const auto file = item.value().get<std::string>();
    listed.insert(item.key());
    const auto found = names.find(file);
    if (found != names.end() && !found->second.contains(item.key())) {
      checkpoint.damage(item.key(), "in " + file + ", as the index says", "no such tensor there");
    }
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    for (const Chunk& chunk : tensor.chunks) bytes += chunk.end - chunk.begin;
    if (!listed.contains(name)) {
      checkpoint.damage(name, "a line of " + index,
                        "none; it is in " + (tensor.chunks.empty() ? "?" : tensor.chunks[0].file));
    }
  }
  const auto metadata = json.find("metadata");
  if (!checkpoint.damages.empty() || metadata == json.end() || !metadata->is_object() ||
      !metadata->contains("total_size")) {
    return;
  }
  const Json& total = (*metadata)["total_size"];
  if (!total.is_number() || total.get<double>() != static_cast<double>(bytes)) {
    checkpoint.damage(index + ": total_size", fmt::format("{}, the bytes of its tensors", bytes),
                      total.dump());
  }
}

}  // namespace shardproof::foreign
