// config_line: the config as words of one line: --set, Case lines and Run lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/error.h"
#include "train/config.h"
#include "train/config_fields.h"
#include "train/config_sources.h"

namespace shardproof {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Whether a text means itself on a line: no blanks, quotes, brackets or anything a shell reads.
bool bare(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("._-/:=,+@%").find(c) != std::string_view::npos;
  });
}

std::string word(const Field& field) {
  const Json value = field.value();
  if (value.is_string() && bare(value.get<std::string>())) return value.get<std::string>();
  std::string text = spell(value);
  replace_all(text, "'", "\\u0027");  // a line fits between single quotes of a shell
  return text;
}

std::string line(Config config, bool with_run) {
  Config defaults;
  const std::vector<Field> mine = fields(config);
  const std::vector<Field> plain = fields(defaults);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].use == KeyUse::run && !with_run) continue;
    if (mine[i].value() == plain[i].value()) continue;
    words.push_back(fmt::format("{}={}", mine[i].name(), word(mine[i])));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// The value of a --set as JSON of the field's type; a text that does not fit stays a text, which
// assign() then refuses.
struct ReadValue {
  std::string_view text;
  const std::string& place;

  template <typename Number>
  Json number() const {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::string(text);
    return value;
  }
  Json operator()(const int*) const { return number<std::int64_t>(); }
  Json operator()(const double*) const { return number<double>(); }
  Json operator()(const bool*) const {
    if (text != "true" && text != "false") return std::string(text);
    return text == "true";
  }
  Json operator()(const std::string*) const {
    return text.starts_with('"') ? parse_json(text, place) : Json(std::string(text));
  }
  Json list() const {
    return text.starts_with('[') ? parse_json(text, place) : Json(std::string(text));
  }
  Json operator()(const std::vector<int>*) const { return list(); }
  Json operator()(const std::vector<std::string>*) const { return list(); }
  Json operator()(const std::vector<SourceSection>*) const { return list(); }
};

bool is_utf8(std::string_view text) {
  try {
    (void)Json(std::string(text)).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string current;
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (!quoted && std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (!current.empty()) words.push_back(std::move(current));
      current.clear();
      continue;
    }
    current += c;
    if (quoted && c == '\\' && i + 1 < line.size()) current += line[++i];
    if (c == '"') quoted = !quoted;
  }
  if (quoted) {
    throw Error(ErrorKind::bad_input, "run line", "a double quote is not closed: " + current);
  }
  if (!current.empty()) words.push_back(std::move(current));
  return words;
}

}  // namespace

std::string spell(const Json& value) {
  std::string text = value.dump();
  replace_all(text, "\x7f", "\\u007f");  // TOML refuses it raw; JSON writes it so
  return text;
}

void set_key(Config& config, std::string_view assignment, Origins* origins) {
  const std::string place = fmt::format("--set {}", assignment);
  if (!is_utf8(assignment)) {
    throw Error(ErrorKind::bad_input, "--set", "found bytes that are not UTF-8; expected text");
  }
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos) {
    throw Error(ErrorKind::bad_input, place, "expected section.key=value");
  }
  const std::string_view name = assignment.substr(0, equals);
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view section = dot == name.size() ? "" : name.substr(0, dot);
  const std::string_view key = dot == name.size() ? name : name.substr(dot + 1);

  Config changed = config;
  const std::vector<Field> all = fields(changed);
  const Field* field = find_field(all, section, key);
  const auto of_source =
      section == "data" ? find_source_field(changed, key, place) : std::optional<Field>();
  if (of_source) field = &*of_source;
  if (field == nullptr) unknown_key(all, section, key, place);
  const std::string_view value = assignment.substr(equals + 1);
  assign(*field, std::visit(ReadValue{value, place}, field->member), place);
  config = std::move(changed);
  if (origins != nullptr) (*origins)[field->name()] = place;
}

std::string case_line(const Config& config) {
  return line(config, false);
}

// A line is never empty, so that it can be seen and typed: all defaults print as their layout.
std::string run_line(const Config& config) {
  const std::string text = line(config, true);
  return text.empty() ? "run.layout=" + config.run.layout : text;
}

Config parse_run_line(std::string_view text) {
  Config config;
  std::set<std::string> given;
  for (const std::string& each : split_words(text)) {
    if (!given.insert(each.substr(0, each.find('='))).second) {
      throw Error(ErrorKind::bad_input, "run line", fmt::format("{}: given twice", each));
    }
    set_key(config, each);
  }
  return config;
}

}  // namespace shardproof
