// config_text: the config as a file: TOML, or JSON with the same keys. Both are turned into JSON
// values with a line each and set by the same code.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "train/config.h"
#include "train/config_fields.h"
#include "train/config_sources.h"

namespace shardproof {
namespace {

// One entry of a file: a key in a section (section empty: at the top level) or a whole section.
struct Entry {
  std::string section;
  std::string key;  // empty: the section itself
  Json value;
  int line = 0;
  std::string other;                   // what stands there when JSON has no such value: nan, a date
  std::map<std::string, int> inner{};  // lines of keys inside a list: "data.sources[1].weight"
};

void store(const Field& field, const Entry& entry, const std::string& file, Origins* origins) {
  const auto place_of = [&](const std::string& name) {
    const auto found = entry.inner.find(name);
    return fmt::format("{}:{}", file, found == entry.inner.end() ? entry.line : found->second);
  };
  const auto given = [&](const std::string& name) {
    if (origins != nullptr) (*origins)[name] = place_of(name);
  };
  if (const auto* sources = std::get_if<std::vector<SourceSection>*>(&field.member)) {
    **sources = read_sources(field, entry.value, place_of, given);
  } else {
    assign(field, entry.value, place_of(field.name()));
  }
  given(field.name());
}

Config build(const std::vector<Entry>& entries, const std::string& file, Origins* origins) {
  Config config;
  const std::vector<Field> all = fields(config);
  for (const Entry& entry : entries) {
    const std::string place = fmt::format("{}:{}", file, entry.line);
    if (entry.section.empty()) unknown_key(all, "", entry.key, place);
    if (!is_section(all, entry.section)) unknown_section(all, entry.section, place);
    if (entry.key.empty()) continue;
    const Field* field = find_field(all, entry.section, entry.key);
    if (field == nullptr) unknown_key(all, entry.section, entry.key, place);
    if (!entry.other.empty()) refuse_value(*field, entry.other, place);
    store(*field, entry, file, origins);
  }
  return config;
}

// A table of a list as an object; any other is a section, which no key takes.
Json from_toml(const toml::node& node, bool in_list = false) {
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    if (!in_list) return object;
    for (const auto& [key, value] : *table) object[std::string(key.str())] = from_toml(value);
    return object;
  }
  Json list = nullptr;
  if (const auto* array = node.as_array()) {
    list = Json::array();
    for (const toml::node& item : *array) list.push_back(from_toml(item, true));
  }
  return list;
}

// The text of a value that JSON does not have; else empty.
std::string other_than_json(const toml::node& node) {
  const auto* number = node.as_floating_point();
  const bool finite = number == nullptr || std::isfinite(number->get());
  if (finite && !node.is_date() && !node.is_time() && !node.is_date_time()) return "";
  std::ostringstream text;
  text << toml::node_view(node);
  return text.str();
}

int line_of(const toml::node& node) {
  return static_cast<int>(node.source().begin.line);
}

std::string inner_name(std::string_view section, std::string_view key, std::size_t index,
                       std::string_view inner) {
  return fmt::format("{}.{}[{}].{}", section, key, index, inner);
}

std::map<std::string, int> inner_lines(std::string_view section, std::string_view key,
                                       const toml::node& node) {
  std::map<std::string, int> lines;
  const auto* array = node.as_array();
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const auto* item = array->get(i)->as_table();
    if (item == nullptr) continue;
    for (const auto& [inner, value] : *item) {
      lines[inner_name(section, key, i, inner.str())] = line_of(value);
    }
  }
  return lines;
}

// Remembers the line of every section and key of a JSON text that is known to be valid, and of the
// keys of objects in lists.
class KeyLines : public nlohmann::json_sax<Json> {
 public:
  // Reads characters and counts the lines begun.
  class Cursor {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;
    Cursor(const char* at, int* line) : at_(at), line_(line) {}
    reference operator*() const { return *at_; }
    Cursor& operator++() {
      if (*at_++ == '\n') ++*line_;
      return *this;
    }
    bool operator==(const Cursor& other) const { return at_ == other.at_; }
    bool operator!=(const Cursor& other) const { return at_ != other.at_; }

   private:
    const char* at_;
    int* line_;
  };

  explicit KeyLines(std::string_view text) {
    Json::sax_parse(Cursor(text.data(), &line_), Cursor(text.data() + text.size(), &line_), this);
  }
  int at(const std::string& section, const std::string& key) const {
    return lines_.at({section, key});
  }
  const std::map<std::string, int>& inner() const { return inner_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (depth_ == 3) ++items_;
    return ++depth_ > 0;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  bool key(string_t& key) override {
    if (depth_ == 1) lines_[{section_ = key, ""}] = line_;
    if (depth_ == 2) {
      lines_[{section_, key_ = key}] = line_;
      items_ = 0;
    }
    // Any other value of a list is refused before its keys are looked at.
    if (depth_ == 4) inner_[inner_name(section_, key_, items_ - 1, key)] = line_;
    return true;
  }

 private:
  int line_ = 1;
  int depth_ = 0;
  std::string section_;
  std::string key_;
  std::size_t items_ = 0;  // objects begun in this key's list
  std::map<std::pair<std::string, std::string>, int> lines_;
  std::map<std::string, int> inner_;
};

}  // namespace

Config parse_toml(std::string_view text, const std::string& file, Origins* origins) {
  std::vector<Entry> entries;
  try {
    const toml::table root = toml::parse(text, file);
    for (const auto& [name, node] : root) {
      const toml::table* section = node.as_table();
      if (section == nullptr) {
        entries.push_back({"", std::string(name.str()), {}, line_of(node), ""});
        continue;
      }
      entries.push_back({std::string(name.str()), "", {}, line_of(node), ""});
      for (const auto& [key, value] : *section) {
        entries.push_back({std::string(name.str()), std::string(key.str()), from_toml(value),
                           line_of(value), other_than_json(value),
                           inner_lines(name.str(), key.str(), value)});
      }
    }
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::bad_input, fmt::format("{}:{}", file, error.source().begin.line),
                fmt::format("not TOML: {}", error.description()));
  }
  // toml++ sorts by name; the first mistake of the file is the one to report.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return build(entries, file, origins);
}

Config parse_config_json(std::string_view text, const std::string& file, Origins* origins) {
  const Json root = parse_json(text, file);
  if (!root.is_object()) {
    throw Error(ErrorKind::bad_input, file + ":1", "found no object; expected {\"model\": {...}}");
  }
  const KeyLines lines(text);
  std::vector<Entry> entries;
  for (const auto& [name, section] : root.items()) {
    const int line = lines.at(name, "");
    if (!section.is_object()) {
      entries.push_back({"", name, {}, line, ""});
      continue;
    }
    entries.push_back({name, "", {}, line, ""});
    for (const auto& [key, value] : section.items()) {
      entries.push_back({name, key, value, lines.at(name, key), "", lines.inner()});
    }
  }
  return build(entries, file, origins);
}

Config load_config(const std::string& path, Origins* origins) {
  const bool toml = path.ends_with(".toml");
  if (!toml && !path.ends_with(".json")) {
    throw Error(ErrorKind::bad_input, path, "expected a name ending in .toml or .json");
  }
  if (std::error_code code;
      std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code)) {
    throw Error(ErrorKind::bad_input, path, "is not a regular file; expected a config file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) {
    throw Error(ErrorKind::bad_input, path, "cannot be read; expected a config file");
  }
  return toml ? parse_toml(text.str(), path, origins)
              : parse_config_json(text.str(), path, origins);
}

namespace {

// As JSON, but for an object of a list, which is a table on a line of its own.
std::string toml_value(const Json& value) {
  if (!value.is_array() || value.empty() || !value.front().is_object()) return spell(value);
  std::string text = "[\n";
  for (const Json& item : value) {
    std::vector<std::string> keys;
    for (const auto& [key, inner] : item.items()) {
      keys.push_back(fmt::format("{} = {}", key, spell(inner)));
    }
    text += fmt::format("  {{{}}},\n", fmt::join(keys, ", "));
  }
  return text + "]";
}

}  // namespace

std::string to_toml(const Config& config) {
  Config copy = config;
  std::string text;
  std::string section;
  for (const Field& field : fields(copy)) {
    if (field.section != section) {
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", field.section);
      section = field.section;
    }
    text += fmt::format("{} = {}  # {}\n", field.key, toml_value(field.value()), field.doc);
  }
  return text;
}

}  // namespace shardproof
