// config_sources: data.sources, the one key whose items have keys of their own: a source of a
// mixture. They are read, printed and checked by the same rules as all keys, and an error names the
// item: "data.sources[1].weight". Thread rule: values. Torch-free.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config_fields.h"

namespace shardproof {

// The keys of item `index`, in struct order. The fields point into `source`.
std::vector<Field> source_fields(SourceSection& source, std::size_t index);

// One object a source; keys at their defaults are left out.
Json sources_json(const std::vector<SourceSection>& sources);

// Where a key stands, by its name.
using PlaceOf = std::function<std::string(const std::string& name)>;

// Error bad_input, naming item and key at its place: not a list of objects, an unknown key, a wrong
// type, a value out of range. `given` is called with the name of each key that was read.
std::vector<SourceSection> read_sources(const Field& field, const Json& value,
                                        const PlaceOf& place_of,
                                        const std::function<void(const std::string&)>& given = {});

// "sources.books.weight": the field of that name in a source that is there. Nothing when `key` does
// not begin with "sources."; Error bad_input at `place` for an unknown source or key.
std::optional<Field> find_source_field(Config& config, std::string_view key,
                                       const std::string& place);

// What is wrong with a mixture, and the name of the key to blame.
struct SourcesProblem {
  std::string key;
  std::string detail;
};
std::optional<SourcesProblem> sources_problem(const Config& config);

}  // namespace shardproof
