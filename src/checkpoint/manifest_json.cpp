// manifest_json: see manifest_json.h.
#include "checkpoint/manifest_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "checkpoint/block_text.h"
#include "checkpoint/storage.h"

namespace shardproof {
namespace {

constexpr std::size_t hex_digits = 64;

[[noreturn]] void corrupt(const std::string& place, const std::string& detail) {
  throw Error(ErrorKind::corrupt, place, detail);
}

std::uint64_t bytes_value(const Json& json, const char* key, const std::string& place) {
  if (!json.is_number_unsigned()) {
    corrupt(place, fmt::format("\"{}\": expected bytes >= 0, found {}", key, json.dump()));
  }
  return json.get<std::uint64_t>();
}

std::int64_t integer_value(const Json& json, const char* key, const std::string& place) {
  return integer_member(Json{{key, json}}, key, place);
}

int small_integer(const Json& json, const char* key, const std::string& place) {
  constexpr std::int64_t limit = 1 << 20;
  const std::int64_t value = integer_member(json, key, place);
  if (value < 0 || value > limit) {
    corrupt(place, fmt::format("\"{}\" is {}; expected 0 to {}", key, value, limit));
  }
  return static_cast<int>(value);
}

const Json& array_member(const Json& json, const char* key, std::size_t size,
                         const std::string& place) {
  const Json& value = member(json, key, place);
  if (!value.is_array() || (size != 0 && value.size() != size)) {
    corrupt(place, fmt::format("\"{}\": expected an array{}", key,
                               size == 0 ? "" : fmt::format(" of {}", size)));
  }
  return value;
}

Shape shape_member(const Json& json, const char* key, const std::string& place) {
  Shape shape;
  for (const Json& extent : array_member(json, key, 0, place)) {
    shape.push_back(integer_value(extent, key, place));
  }
  return shape;
}

Json object_member(const Json& json, const char* key, const std::string& place) {
  const Json& value = member(json, key, place);
  if (!value.is_object()) corrupt(place, fmt::format("\"{}\": expected an object", key));
  return value;
}

}  // namespace

void expect_keys(const Json& json, std::initializer_list<const char*> keys,
                 const std::string& place) {
  if (!json.is_object()) {
    corrupt(place, fmt::format("expected an object, found {}", json.type_name()));
  }
  for (const auto& item : json.items()) {
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&](const char* key) { return item.key() == key; });
    if (!known) corrupt(place, "unknown key " + Json(item.key()).dump());
  }
}

Digest digest_from_text(const std::string& text, const char* key, const std::string& place) {
  const bool hex =
      text.size() == hex_digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) corrupt(place, fmt::format("\"{}\": expected 64 lower-case hex digits", key));
  return Digest::from_hex(text);
}

namespace {

// Its last member is "blocks": `blocks`.
Json entry_json(const ManifestEntry& entry, std::string blocks) {
  return Json{{"name", entry.name},
              {"what", entry.what},
              {"piece", entry.piece},
              {"pieces", entry.pieces},
              {"shape", entry.global_shape},
              {"box", {{"offsets", entry.box.offsets}, {"shape", entry.box.shape}}},
              {"dtype", name(entry.dtype)},
              {"range", {entry.range.lo, entry.range.hi}},
              {"file", entry.file},
              {"tensor", entry.tensor},
              {"bytes", {entry.begin, entry.end}},
              {"blocks", std::move(blocks)}};
}

}  // namespace

Json to_json(const ManifestEntry& entry) {
  return entry_json(entry, blocks_text(entry.blocks));
}

void append_entry(std::string& text, const ManifestEntry& entry) {
  constexpr std::string_view end = "\"}";
  text += entry_json(entry, "").dump();
  text.resize(text.size() - end.size());
  text.append(blocks_text(entry.blocks)).append(end);
}

ManifestEntry entry_from_json(const Json& json, const std::string& place) {
  expect_keys(json,
              {"name", "what", "piece", "pieces", "shape", "box", "dtype", "range", "file",
               "tensor", "bytes", "blocks"},
              place);
  ManifestEntry entry;
  entry.name = string_member(json, "name", place);
  entry.what = string_member(json, "what", place);
  entry.piece = small_integer(json, "piece", place);
  entry.pieces = small_integer(json, "pieces", place);
  entry.global_shape = shape_member(json, "shape", place);
  const Json& box = member(json, "box", place);
  expect_keys(box, {"offsets", "shape"}, place + ": box");
  entry.box.offsets = shape_member(box, "offsets", place);
  entry.box.shape = shape_member(box, "shape", place);
  try {
    entry.dtype = dtype_from_name(string_member(json, "dtype", place));
  } catch (const Error& error) {
    corrupt(place, error.place() + ": " + error.detail());
  }
  const Json& range = array_member(json, "range", 2, place);
  entry.range = {integer_value(range[0], "range", place), integer_value(range[1], "range", place)};
  entry.file = string_member(json, "file", place);
  check_storage_path(entry.file);
  entry.tensor = string_member(json, "tensor", place);
  const Json& bytes = array_member(json, "bytes", 2, place);
  entry.begin = bytes_value(bytes[0], "bytes", place);
  entry.end = bytes_value(bytes[1], "bytes", place);
  entry.blocks = blocks_from_text(string_member(json, "blocks", place), place);
  return entry;
}

Json to_json(const ShardFileRef& file) {
  return Json{{"file", file.file},
              {"bytes", file.bytes},
              {"head", file.head},
              {"head_sha256", file.head_sha256.hex()},
              {"digest", file.digest.hex()}};
}

ShardFileRef file_from_json(const Json& json, const std::string& place) {
  expect_keys(json, {"file", "bytes", "head", "head_sha256", "digest"}, place);
  ShardFileRef file;
  file.file = string_member(json, "file", place);
  check_storage_path(file.file);
  file.bytes = bytes_value(member(json, "bytes", place), "bytes", place);
  file.head = bytes_value(member(json, "head", place), "head", place);
  file.head_sha256 =
      digest_from_text(string_member(json, "head_sha256", place), "head_sha256", place);
  file.digest = digest_from_text(string_member(json, "digest", place), "digest", place);
  return file;
}

Json to_json(const CheckpointFacts& facts) {
  return Json{{"step", facts.step},
              {"run_line", facts.run_line},
              {"config", facts.config},
              {"layout", facts.layout},
              {"schedule", facts.schedule},
              {"cursor", facts.cursor},
              {"data_digest", facts.data_digest},
              {"tokenizer_digest", facts.tokenizer_digest},
              {"template_digest", facts.template_digest},
              {"packing", facts.packing},
              {"parameter_groups", facts.parameter_groups},
              {"seeds", facts.seeds},
              {"versions", facts.versions},
              {"kernel_fingerprint", facts.kernel_fingerprint},
              {"origin", facts.origin}};
}

CheckpointFacts facts_from_json(const Json& json, const std::string& place) {
  expect_keys(json,
              {"step", "run_line", "config", "layout", "schedule", "cursor", "data_digest",
               "tokenizer_digest", "template_digest", "packing", "parameter_groups", "seeds",
               "versions", "kernel_fingerprint", "origin"},
              place);
  CheckpointFacts facts;
  facts.step = integer_member(json, "step", place);
  constexpr std::int64_t last_step = std::numeric_limits<int>::max();  // that a config can ask for
  if (facts.step < 0 || facts.step > last_step) {
    corrupt(place, fmt::format("\"step\" is {}; expected 0 to {}", facts.step, last_step));
  }
  facts.run_line = string_member(json, "run_line", place);
  facts.config = object_member(json, "config", place);
  facts.layout = string_member(json, "layout", place);
  facts.schedule = object_member(json, "schedule", place);
  facts.cursor = object_member(json, "cursor", place);
  facts.data_digest = string_member(json, "data_digest", place);
  facts.tokenizer_digest = string_member(json, "tokenizer_digest", place);
  facts.template_digest = string_member(json, "template_digest", place);
  facts.packing = string_member(json, "packing", place);
  facts.parameter_groups = object_member(json, "parameter_groups", place);
  facts.seeds = object_member(json, "seeds", place);
  facts.versions = object_member(json, "versions", place);
  facts.kernel_fingerprint = string_member(json, "kernel_fingerprint", place);
  facts.origin = object_member(json, "origin", place);
  return facts;
}

}  // namespace shardproof
