// config_sources: the list of a source's keys, and the rules of a mixture.
#include "train/config_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr double most_weight = 1e9;
constexpr std::size_t most_sources = 64;
constexpr std::size_t longest_name = 64;

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= longest_name &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
         });
}

std::string name_of(std::size_t index, std::string_view key) {
  return fmt::format("data.sources[{}].{}", index, key);
}

// The keys that sources have of their own stay at their defaults.
std::optional<SourcesProblem> single_key(const Config& config) {
  const DataSection plain;
  const DataSection& data = config.data;
  const auto refuse = [](const char* key, const std::string& found) {
    return SourcesProblem{
        key, fmt::format("found {} beside data.sources; expected it in a source", found)};
  };
  if (data.kind != plain.kind) return refuse("data.kind", data.kind);
  if (data.path != plain.path) return refuse("data.path", Json(data.path).dump());
  if (data.samples != plain.samples) return refuse("data.samples", std::to_string(data.samples));
  if (data.last != plain.last) {
    return SourcesProblem{"data.last", fmt::format("found {} with data.sources, whose batches are "
                                                   "never short; expected {}",
                                                   data.last, plain.last)};
  }
  return std::nullopt;
}

std::optional<SourcesProblem> source_problem(const Config& config, std::size_t index) {
  const SourceSection& source = config.data.sources[index];
  const auto blame = [&](std::string_view key, std::string detail) {
    return SourcesProblem{name_of(index, key), std::move(detail)};
  };
  if (!is_name(source.name)) {
    return blame("name", fmt::format("found {}; expected 1 to {} letters, digits, _ . or -",
                                     Json(source.name).dump(), longest_name));
  }
  const bool synthetic = source.kind == "synthetic";
  if (synthetic && !source.path.empty()) {
    return blame("path", fmt::format("found {} with kind synthetic, which reads no file; expected "
                                     "kind text or tokens",
                                     Json(source.path).dump()));
  }
  if (!synthetic && source.path.empty()) {
    return blame("path", fmt::format("not given; kind {} needs it", source.kind));
  }
  if (!synthetic && source.samples != SourceSection().samples) {
    return blame("samples", fmt::format("found {} with kind {}; expected them with kind synthetic "
                                        "alone",
                                        source.samples, source.kind));
  }
  if (synthetic && config.data.packed) {
    return blame("kind", "found synthetic with data.packed; expected text or tokens");
  }
  if (const auto& first = config.data.sources.front(); source.kind != first.kind) {
    return blame("kind", fmt::format("found {}; expected {} as in source {} (a mixture has one "
                                     "tokenizer)",
                                     source.kind, first.kind, first.name));
  }
  return std::nullopt;
}

}  // namespace

std::vector<Field> source_fields(SourceSection& source, std::size_t index) {
  const std::string section = fmt::format("data.sources[{}]", index);
  using enum KeyUse;
  return {
      {section, "name", &source.name, {}, bits, "of the source"},
      {section,
       "weight",
       &source.weight,
       {0, most_weight, false, false, {}},
       bits,
       "relative to the others"},
      {section,
       "kind",
       &source.kind,
       {.choices = {"synthetic", "text", "tokens"}},
       bits,
       "seeded corpus, bytes of a text file, or a token file"},
      {section, "path", &source.path, {}, line, "the text or token file"},
      {section,
       "samples",
       &source.samples,
       {1, 1 << 28, false, false, {}},
       bits,
       "samples of the synthetic corpus"},
  };
}

Json sources_json(const std::vector<SourceSection>& sources) {
  Json list = Json::array();
  for (SourceSection source : sources) {
    SourceSection plain;
    const auto mine = source_fields(source, 0), defaults = source_fields(plain, 0);
    Json& object = list.emplace_back(Json::object());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Json value = mine[i].value();
      if (value != defaults[i].value()) object[std::string(mine[i].key)] = value;
    }
  }
  return list;
}

std::vector<SourceSection> read_sources(const Field& field, const Json& value,
                                        const PlaceOf& place_of,
                                        const std::function<void(const std::string&)>& given) {
  const auto is_object = [](const Json& item) { return item.is_object(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_object)) {
    refuse_value(field, value.is_object() ? "a section" : spell(value), place_of(field.name()));
  }
  std::vector<SourceSection> sources(value.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::vector<Field> all = source_fields(sources[i], i);
    for (const auto& [key, item] : value[i].items()) {
      const std::string place = place_of(name_of(i, key));
      const Field* found = find_field(all, all.front().section, key);
      if (found == nullptr) unknown_key(all, all.front().section, key, place);
      assign(*found, item, place);
      if (given) given(found->name());
    }
  }
  return sources;
}

std::optional<Field> find_source_field(Config& config, std::string_view key,
                                       const std::string& place) {
  constexpr std::string_view prefix = "sources.";
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  const std::size_t dot = std::min(key.rfind('.'), key.size());  // a name may have dots
  const std::string_view name = key.substr(0, dot);
  std::vector<std::string> known;
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    SourceSection& source = config.data.sources[i];
    known.push_back(source.name);
    if (source.name != name) continue;
    const std::vector<Field> all = source_fields(source, i);
    const std::string_view last = dot == key.size() ? "" : key.substr(dot + 1);
    const Field* field = find_field(all, all.front().section, last);
    if (field == nullptr) unknown_key(all, all.front().section, last, place);
    return *field;
  }
  throw Error(ErrorKind::bad_input, place,
              fmt::format("unknown source {}; data.sources has {}", name,
                          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

std::optional<SourcesProblem> sources_problem(const Config& config) {
  std::vector<SourceSection> sources = config.data.sources;
  if (sources.empty()) return std::nullopt;
  if (auto problem = single_key(config)) return problem;
  if (sources.size() > most_sources) {
    return SourcesProblem{"data.sources", fmt::format("found {} sources; expected at most {}",
                                                      sources.size(), most_sources)};
  }
  std::set<std::string> names;
  bool drawn = false;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (auto problem = source_problem(config, i)) return problem;
    if (!names.insert(sources[i].name).second) {
      return SourcesProblem{
          name_of(i, "name"),
          fmt::format("found {} a second time; expected names that differ", sources[i].name)};
    }
    drawn = drawn || sources[i].weight > 0;
  }
  if (drawn) return std::nullopt;
  return SourcesProblem{name_of(0, "weight"), "found 0 for every source; expected one above 0"};
}

}  // namespace shardproof
