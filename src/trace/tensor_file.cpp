// tensor_file: safetensors with places in the metadata, written and mapped back.
#include "trace/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <regex>
#include <unordered_map>
#include <unordered_set>

#include "base/safetensors.h"
#include "trace/file_error.h"
#include "trace/mapped_file.h"
#include "trace/reader.h"
#include "trace/tensor_place.h"

namespace shardproof {
namespace {

constexpr const char* sharding_key = "DCP_SHARDING_INFO";

void write_all(int fd, const void* data, std::size_t bytes, const std::string& path) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(fd, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw file_error(path, "write", count < 0 ? errno : ENOSPC);
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

template <typename T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Head {
  std::string bytes;
  std::vector<SafetensorsEntry> entries;
};

Head make_head(std::span<const TensorView> views) {
  std::map<std::string, int> uses;
  for (const TensorView& view : views) ++uses[view.place.name];
  Head head;
  Json infos = Json::object();
  for (const TensorView& view : views) {
    const TensorPlace& place = view.place;
    SafetensorsEntry entry;
    entry.name = uses[place.name] == 1 ? place.name : fmt::format("{}#{}", place.name, place.piece);
    entry.dtype = view.dtype;
    entry.shape = place.is_run ? Shape{place.range.size()} : place.box.shape;
    infos[entry.name] = place_json(place);
    head.entries.push_back(std::move(entry));
  }
  head.bytes = safetensors_head(head.entries, {{sharding_key, infos.dump()}});
  return head;
}

// The sharding info of a file by key; an empty object where the file has none.
Json sharding_info(const SafetensorsHeader& header, const std::string& path) {
  const auto found = header.metadata.find(sharding_key);
  if (found == header.metadata.end()) return Json::object();
  const std::string where = fmt::format("{}: {}", path, sharding_key);
  Json infos = parse_json(found->second, where, ErrorKind::corrupt);
  if (!infos.is_object()) throw Error(ErrorKind::corrupt, where, "expected an object");
  std::unordered_set<std::string_view> names;
  for (const SafetensorsEntry& entry : header.entries) names.insert(entry.name);
  for (const auto& item : infos.items()) {
    if (!names.contains(item.key())) {
      throw Error(ErrorKind::corrupt, where, fmt::format("no entry \"{}\"", item.key()));
    }
  }
  return infos;
}

}  // namespace

std::string tensor_file_name(std::int64_t step, const std::string& what, int rank) {
  return fmt::format("step_{:06d}.{}.rank_{:05d}.safetensors", step, what, rank);
}

std::optional<TensorFileName> parse_tensor_file_name(const std::string& file) {
  static const std::regex form(R"(step_(-?\d+)\.([A-Za-z_]+)\.rank_(\d+)\.safetensors)");
  std::smatch match;
  if (!std::regex_match(file, match, form)) return std::nullopt;
  const auto step = parse_number<std::int64_t>(match[1]);
  const auto rank = parse_number<int>(match[3]);
  if (!step || !rank) return std::nullopt;
  return TensorFileName{*step, match[2], *rank};
}

Json place_json(const TensorPlace& place) {
  Json info{{"name", place.name}, {"piece", place.piece}};
  if (!place.is_run) info["saved_offsets"] = place.box.offsets;
  info["global_shape"] = place.global_shape;
  if (place.is_run) {
    info["piece_offsets"] = place.box.offsets;
    info["piece_shape"] = place.box.shape;
    info["range"] = {place.range.lo, place.range.hi};
  }
  return info;
}

TensorPlace place_from_json(const Json& info, const std::string& key, const Shape& shape,
                            const std::string& where) {
  TensorPlace place;
  place.global_shape = integers_member(info, "global_shape", where);
  place.name = info.contains("name") ? string_member(info, "name", where) : key;
  place.piece = piece_member(info, where);
  place.is_run = info.contains("range");
  if (place.is_run) {
    place.box = {integers_member(info, "piece_offsets", where),
                 integers_member(info, "piece_shape", where)};
    place.range = range_member(info, "range", where);
  } else {
    place.box = {integers_member(info, "saved_offsets", where), shape};
  }
  check_place(place, where);
  if (place.is_run && shape != Shape{place.range.size()}) {
    throw Error(ErrorKind::corrupt, where,
                fmt::format("a run of {} elements has another shape", place.range.size()));
  }
  return place;
}

void write_tensor_file(const std::string& path, std::span<const TensorView> views) {
  const Head head = make_head(views);
  const std::string draft = path + ".draft";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw file_error(draft, "open", errno);
  try {
    write_all(fd, head.bytes.data(), head.bytes.size(), draft);
    for (std::size_t i = 0; i < views.size(); ++i) {
      write_all(fd, views[i].data, head.entries[i].end - head.entries[i].begin, draft);
    }
  } catch (...) {
    ::close(fd);
    ::unlink(draft.c_str());
    throw;
  }
  if (::close(fd) != 0) throw file_error(draft, "close", errno);
  if (std::rename(draft.c_str(), path.c_str()) != 0) throw file_error(path, "rename", errno);
}

struct TensorFile::Impl {
  explicit Impl(const std::string& path) : file(path) {}

  MappedFile file;
  std::vector<Entry> entries;
};

TensorFile TensorFile::open(const std::string& path) {
  auto impl = std::make_shared<Impl>(path);
  const auto bytes = impl->file.bytes();
  const SafetensorsHeader header = parse_safetensors(bytes, bytes.size(), path);
  const Json infos = sharding_info(header, path);
  std::unordered_map<std::string_view, const Json*> places;  // a find in Json is linear
  for (const auto& info : infos.items()) places.emplace(info.key(), &info.value());
  for (const SafetensorsEntry& entry : header.entries) {
    Entry out;
    if (const auto info = places.find(entry.name); info != places.end()) {
      out.place = place_from_json(*info->second, entry.name, entry.shape,
                                  fmt::format("{}: entry \"{}\"", path, entry.name));
    } else {  // a whole tensor
      out.place.name = entry.name;
      out.place.global_shape = entry.shape;
      out.place.box = {Shape(entry.shape.size(), 0), entry.shape};
    }
    out.dtype = entry.dtype;
    out.bytes = bytes.subspan(header.data_begin + entry.begin, entry.end - entry.begin);
    impl->entries.push_back(std::move(out));
  }
  TensorFile file;
  file.impl_ = std::move(impl);
  return file;
}

const std::vector<TensorFile::Entry>& TensorFile::entries() const {
  return impl_->entries;
}

}  // namespace shardproof
