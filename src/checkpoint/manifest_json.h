// manifest_json: the spelling of a manifest's parts. Readers take nothing on trust but ranges and
// coverage, which check_entries looks at: Error corrupt | refused naming `place`.
// Thread rule: pure.
#pragma once

#include <string>

#include "checkpoint/manifest.h"

namespace shardproof {

Json to_json(const ManifestEntry& entry);
void append_entry(std::string& text, const ManifestEntry& entry);  // to_json(entry).dump()
Json to_json(const ShardFileRef& file);
Json to_json(const CheckpointFacts& facts);
ManifestEntry entry_from_json(const Json& json, const std::string& place);
ShardFileRef file_from_json(const Json& json, const std::string& place);
CheckpointFacts facts_from_json(const Json& json, const std::string& place);

// Error corrupt unless `json` is an object with no other keys than these (missing ones are found
// when they are read).
void expect_keys(const Json& json, std::initializer_list<const char*> keys,
                 const std::string& place);
// 64 lower-case hex digits, the one spelling that Digest::hex() writes; Error corrupt.
Digest digest_from_text(const std::string& text, const char* key, const std::string& place);

}  // namespace shardproof
