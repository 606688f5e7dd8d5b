// manifest: names, digests and the text form. The checks of entries are in manifest_check.cpp.
#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "checkpoint/block_text.h"
#include "checkpoint/manifest_json.h"

namespace shardproof {
namespace {

// The text before and after the digest that closes a manifest.
constexpr std::string_view seal_begin = ",\n\"manifest_sha256\":\"";
constexpr std::string_view seal_end = "\"}\n";
constexpr std::size_t seal_bytes = seal_begin.size() + 64 + seal_end.size();

// Length first, so that no two lists of fields give the same bytes.
void feed(Sha256& hash, std::string_view text) {
  hash.update(fmt::format("{}:", text.size())).update(text);
}

void feed(Sha256& hash, const Shape& shape) {
  hash.update(fmt::format("{};", shape.size()));
  for (const std::int64_t extent : shape) hash.update(fmt::format("{},", extent));
}

void check_seal(std::string_view text, const std::string& file) {
  const auto refuse = [&](const std::string& detail) {
    throw Error(ErrorKind::corrupt, file, detail);
  };
  if (text.size() < seal_bytes) {
    refuse(fmt::format("{} bytes are too few for a manifest", text.size()));
  }
  const std::string_view body = text.substr(0, text.size() - seal_bytes);
  const std::string_view seal = text.substr(body.size());
  if (!seal.starts_with(seal_begin) || !seal.ends_with(seal_end)) {
    refuse("does not end in its \"manifest_sha256\": cut off, appended to, or another file");
  }
  const std::string_view said = seal.substr(seal_begin.size(), 64);
  const std::string found = sha256(body).hex();
  // Compared as text: the closing digest has one spelling.
  if (said != found) {
    refuse(fmt::format("bytes [0, {}): expected sha256 {}, found {}", body.size(), said, found));
  }
}

// The head and the entries are the whole of a file: no byte is without a digest.
void check_covered(const ShardFileRef& ref, std::vector<const ManifestEntry*>& entries,
                   const std::string& file) {
  std::sort(entries.begin(), entries.end(),
            [](const auto* a, const auto* b) { return a->begin < b->begin; });
  std::uint64_t at = ref.head;
  for (const ManifestEntry* entry : entries) {
    if (entry->begin != at) {
      throw Error(
          ErrorKind::corrupt, fmt::format("{}: {}", file, entry->label()),
          fmt::format("begins at byte {} of '{}'; expected {}, where what is before it ends",
                      entry->begin, ref.file, at));
    }
    at = entry->end;
  }
  if (at != ref.bytes) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("the entries of '{}' end at byte {}; expected its {} bytes", ref.file,
                            at, ref.bytes));
  }
}

void read_files(Manifest& manifest, const Json& files, const std::string& file) {
  std::map<std::string, std::vector<const ManifestEntry*>> held;
  for (const Json& json : files) {
    const std::string place = fmt::format("{}: file {}", file, manifest.files.size());
    manifest.files.push_back(file_from_json(json, place));
    const ShardFileRef& ref = manifest.files.back();
    if (!held.try_emplace(ref.file).second) {
      throw Error(ErrorKind::corrupt, place, fmt::format("'{}' is listed twice", ref.file));
    }
  }
  for (const ManifestEntry& entry : manifest.entries) {
    const auto found = held.find(entry.file);
    if (found == held.end()) {
      throw Error(ErrorKind::corrupt, fmt::format("{}: {}", file, entry.label()),
                  fmt::format("lies in '{}', which is not in the list of files", entry.file));
    }
    found->second.push_back(&entry);
  }
  for (const ShardFileRef& ref : manifest.files) check_covered(ref, held.at(ref.file), file);
}

const Json& array_member(const Json& json, const char* key, const std::string& file) {
  const Json& value = member(json, key, file);
  if (!value.is_array()) {
    throw Error(ErrorKind::corrupt, file, fmt::format("\"{}\": expected an array", key));
  }
  return value;
}

// The JSON of the text; the entries' block digests stay in `apart` if all of them, and nothing
// else, were found there. Else it is left empty, and they are in the JSON.
Json parse_apart(std::string_view text, BlocksApart& apart, const std::string& file) {
  Json json = parse_json(apart.json, file, ErrorKind::corrupt);
  const auto entries = json.is_object() ? json.find("entries") : json.end();
  const bool all = entries != json.end() && entries->is_array() &&
                   entries->size() == apart.blocks.size() &&
                   std::all_of(entries->begin(), entries->end(), [](const Json& entry) {
                     const auto blocks = entry.is_object() ? entry.find("blocks") : entry.end();
                     return blocks != entry.end() && *blocks == "";
                   });
  if (all) return json;
  apart.blocks.clear();
  return parse_json(text, file, ErrorKind::corrupt);
}

void read_seeds_alone(Manifest& manifest, const Json& json, const Digest& state,
                      const std::string& file) {
  const std::string place = file + ": seeds_alone";
  expect_keys(json, {"attempt"}, place);
  if (!manifest.files.empty() || !manifest.entries.empty()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("beside {} files and {} entries; expected none", manifest.files.size(),
                            manifest.entries.size()));
  }
  manifest.seeds_alone = SeedsAlone{state, string_member(json, "attempt", place)};
}

}  // namespace

void require_tensors(const Manifest& manifest) {
  if (!manifest.seeds_alone) return;
  throw Error(ErrorKind::refused, "checkpoint " + manifest.id,
              "it keeps seeds alone, no tensors; expected one of checkpoint.strategy sharded or "
              "full");
}

std::string ManifestEntry::label() const {
  return fmt::format("{}/{} piece {} [{}:{}]", name, what, piece, range.lo, range.hi);
}

std::string ManifestEntry::key() const {
  return fmt::format("{}/{}/{}/{}", name, what, piece, range.lo);
}

void check_checkpoint_id(const std::string& id) {
  constexpr std::size_t longest = 128;
  constexpr const char* legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  const bool good = !id.empty() && id.size() <= longest && id.front() != '.' &&
                    id.find_first_not_of(legal) == std::string::npos;
  if (!good) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("checkpoint id {}",
                    Json(id).dump(-1, ' ', true, Json::error_handler_t::replace)),
        fmt::format("expected 1 to {} of A-Z a-z 0-9 . _ -, not starting with a dot", longest));
  }
}

std::string step_id(std::int64_t step) {
  return fmt::format("step-{:08}", step);
}

std::string manifest_path(const std::string& id) {
  return id + ".manifest.json";
}

Digest Manifest::state_digest() const {
  if (seeds_alone) return seeds_alone->state;
  Sha256 state;
  for (std::size_t i = 0; i < entries.size();) {
    const ManifestEntry& first = entries[i];
    Sha256 piece;
    for (; i < entries.size() && entries[i].name == first.name && entries[i].what == first.what &&
           entries[i].piece == first.piece;
         ++i) {
      for (const Digest& block : entries[i].blocks) {
        piece.update(block.bytes.data(), block.bytes.size());
      }
    }
    feed(state, first.name);
    feed(state, first.what);
    state.update(fmt::format("{}/{};{};", first.piece, first.pieces, name(first.dtype)));
    feed(state, first.global_shape);
    feed(state, first.box.offsets);
    feed(state, first.box.shape);
    const Digest digest = piece.finish();
    state.update(digest.bytes.data(), digest.bytes.size());
  }
  return state.finish();
}

std::string Manifest::print() const {
  // One line an entry: a manifest can be read and compared with ordinary tools.
  std::string text = fmt::format(
      "{{\"shardproof_checkpoint\":{},\n\"id\":{},\n\"state_digest\":\"{}\",\n\"facts\":{}", schema,
      Json(id).dump(), state_digest().hex(), to_json(facts).dump());
  if (seeds_alone) {
    text += ",\n\"seeds_alone\":" + Json{{"attempt", seeds_alone->attempt}}.dump();
  }
  text += ",\n\"files\":[";
  for (const ShardFileRef& file : files) {
    text += fmt::format("{}\n{}", &file == files.data() ? "" : ",", to_json(file).dump());
  }
  text += "],\n\"entries\":[";
  for (const ManifestEntry& entry : entries) {
    text += &entry == entries.data() ? "\n" : ",\n";
    append_entry(text, entry);
  }
  text += "]";
  const std::string digest = sha256(text).hex();
  return text.append(seal_begin).append(digest).append(seal_end);
}

Manifest Manifest::parse(std::string_view text, const std::string& file) {
  check_seal(text, file);
  BlocksApart apart = take_blocks_apart(text);
  const Json json = parse_apart(text, apart, file);
  const std::int64_t found = integer_member(json, "shardproof_checkpoint", file);
  if (found != schema) {
    throw Error(ErrorKind::refused, file,
                fmt::format("schema {}; this program reads schema {}", found, schema));
  }
  expect_keys(json,
              {"shardproof_checkpoint", "id", "state_digest", "facts", "seeds_alone", "files",
               "entries", "manifest_sha256"},
              file);
  Manifest manifest;
  manifest.id = string_member(json, "id", file);
  check_checkpoint_id(manifest.id);
  manifest.facts = facts_from_json(member(json, "facts", file), file + ": facts");
  manifest.seal = text.substr(text.size() - seal_end.size() - 64, 64);
  for (const Json& entry : array_member(json, "entries", file)) {
    const std::size_t number = manifest.entries.size();
    const std::string place = fmt::format("{}: entry {}", file, number);
    manifest.entries.push_back(entry_from_json(entry, place));
    if (apart.blocks.empty()) continue;
    manifest.entries.back().blocks = blocks_from_text(apart.blocks[number], place);
  }
  check_entries(manifest.entries, file);
  read_files(manifest, array_member(json, "files", file), file);
  const Digest said =
      digest_from_text(string_member(json, "state_digest", file), "state_digest", file);
  if (json.contains("seeds_alone")) read_seeds_alone(manifest, json.at("seeds_alone"), said, file);
  if (const Digest state = manifest.state_digest(); said != state) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("state_digest is {}; its entries give {}", said.hex(), state.hex()));
  }
  return manifest;
}

}  // namespace shardproof
