// The two languages of a subject file.
#include "harness/judge/subject_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/pickle_text.h"
#include "harness/judge/leg_output.h"

namespace shardproof {
namespace {

struct Placed {
  SubjectEntry entry;
  int line = 0;
};

// Error bad_input for what JSON does not have (a date), so that no key takes it for a text.
Json value_of(const toml::node& node, const std::string& place) {
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& item : *array) list.push_back(value_of(item, place));
    return list;
  }
  if (node.is_table()) return Json::object();
  std::ostringstream text;
  text << toml::node_view(node);
  throw Error(ErrorKind::bad_input, place,
              fmt::format("found {}; expected a text, a number, true or false, or a list of texts",
                          text.str()));
}

void walk(const toml::table& table, std::vector<std::string>& path, const std::string& file,
          std::vector<Placed>& out) {
  for (const auto& [name, node] : table) {
    path.emplace_back(name.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      walk(*inner, path, file, out);
    } else {
      const int line = static_cast<int>(node.source().begin.line);
      const std::string place = fmt::format("{}:{}", file, line);
      out.push_back({{path, value_of(node, place), place}, line});
    }
    path.pop_back();
  }
}

std::vector<SubjectEntry> read_toml(std::string_view text, const std::string& file) {
  std::vector<Placed> placed;
  try {
    std::vector<std::string> path;
    walk(toml::parse(text, file), path, file, placed);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::bad_input, fmt::format("{}:{}", file, error.source().begin.line),
                fmt::format("not TOML: {}", error.description()));
  }
  // toml++ sorts by name; layouts count in the order of the text.
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.line < b.line; });
  std::vector<SubjectEntry> out;
  for (Placed& each : placed) out.push_back(std::move(each.entry));
  return out;
}

void walk(const Json& object, std::vector<std::string>& path, const std::string& file,
          std::vector<SubjectEntry>& out) {
  for (const auto& [name, value] : object.items()) {
    path.push_back(name);
    if (value.is_object() && !value.empty()) {
      walk(value, path, file, out);
    } else {
      out.push_back({path, value, file});
    }
    path.pop_back();
  }
}

std::vector<SubjectEntry> read_json(std::string_view text, const std::string& file) {
  const Json root = parse_json(text, file);
  if (!root.is_object()) {
    throw Error(ErrorKind::bad_input, file, "found no object; expected {\"subject\": {...}}");
  }
  std::vector<SubjectEntry> out;
  std::vector<std::string> path;
  walk(root, path, file, out);
  return out;
}

}  // namespace

std::string SubjectEntry::key() const {
  return fmt::format("{}", fmt::join(path, "."));
}

std::vector<SubjectEntry> read_entries(std::string_view text, const std::string& file) {
  if (file.ends_with(".toml")) return read_toml(text, file);
  if (file.ends_with(".json")) return read_json(text, file);
  throw Error(ErrorKind::bad_input, file, "expected a name ending in .toml or .json");
}

SubjectEntry read_assignment(std::string_view assignment) {
  if (!is_utf8(assignment)) {
    throw Error(ErrorKind::bad_input, "--set " + whole_utf8(std::string(assignment), 200),
                "is not UTF-8; expected a text in UTF-8");
  }
  const std::string place = fmt::format("--set {}", assignment);
  const std::size_t at = assignment.find('=');
  if (at == std::string_view::npos || at == 0) {
    throw Error(ErrorKind::bad_input, place, "expected KEY=VALUE, such as subject.steps=8");
  }
  SubjectEntry entry;
  entry.place = place;
  std::istringstream key{std::string(assignment.substr(0, at))};
  for (std::string word; std::getline(key, word, '.');) entry.path.push_back(word);
  const std::string value(assignment.substr(at + 1));
  // A bare text is no JSON; what looks like JSON must be.
  if (value.starts_with('"') || value.starts_with('[')) {
    entry.value = parse_json(value, place);
  } else {
    const Json parsed = Json::parse(value, nullptr, false);
    const bool plain = !parsed.is_discarded() && (parsed.is_number() || parsed.is_boolean());
    entry.value = plain ? parsed : Json(value);
  }
  return entry;
}

}  // namespace shardproof
