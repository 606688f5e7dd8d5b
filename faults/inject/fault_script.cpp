// fault_script: one line, and TOML.
#include "faults/inject/fault_script.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "base/error.h"

namespace shardproof {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& detail) {
  throw Error(ErrorKind::bad_input, place, detail);
}

template <typename Number>
Number number(std::string_view text, const std::string& what, const std::string& place) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(place, fmt::format("{}: found \"{}\"; expected a number", what, text.substr(0, 40)));
  }
  return out;
}

void check(const Fault& fault, const std::string& place) {
  if (const std::string why = misfit(fault.kind, fault.point); !why.empty()) refuse(place, why);
  const KindInfo& of = info(fault.kind);
  const double a = fault.argument;
  const auto in = [&](double lo, double hi, const char* what) {
    if (std::isfinite(a) && a >= lo && a <= hi) return;
    refuse(place, fmt::format("{}: found {}; expected {} in [{}, {}]", of.name, a, what, lo, hi));
  };
  if (of.argument == ArgumentUse::seconds) in(0, 3600, "seconds");
  if (of.argument == ArgumentUse::jump) in(-1e9, 1e9, "seconds");
  if (of.argument == ArgumentUse::factor) in(-1e30, 1e30, "a factor");
  if (of.argument == ArgumentUse::bit) {
    in(0, 31, "a bit");
    if (a != std::floor(a)) refuse(place, fmt::format("{}: found bit {}", of.name, a));
  }
  if (fault.times < 0) refuse(place, fmt::format("times: found {}; expected >= 0", fault.times));
  if (fault.run < 0 || fault.run > 100) {
    refuse(place, fmt::format("run: found {}; expected 0 to 100", fault.run));
  }
}

Fault parse_fault(std::string_view word, const std::string& place) {
  Fault fault;
  const std::size_t mark = word.find('!');
  if (mark == word.npos) {
    refuse(place, fmt::format("found \"{}\"; expected [RUN/]POINT!KIND[=ARGUMENT][*TIMES], such as "
                              "call:1:world:12:before!dtype",
                              word.substr(0, 120)));
  }
  std::string_view point = word.substr(0, mark), kind = word.substr(mark + 1);
  const std::size_t slash = point.find('/'), colon = point.find(':');
  if (slash < colon) {  // a group has slashes, too
    fault.run = number<int>(point.substr(0, slash), "run", place);
    point.remove_prefix(slash + 1);
  }
  if (const std::size_t star = kind.find('*'); star != kind.npos) {
    fault.times = number<int>(kind.substr(star + 1), "times", place);
    kind = kind.substr(0, star);
  }
  const std::size_t equals = kind.find('=');
  fault.point = parse_fault_point(point, place);
  fault.kind = parse_fault_kind(kind.substr(0, equals), place);
  const KindInfo& of = info(fault.kind);
  fault.argument = of.usual;
  if (equals != kind.npos) {
    if (of.argument == ArgumentUse::none) {
      refuse(place,
             fmt::format("{} takes no argument; found \"{}\"", of.name, kind.substr(equals)));
    }
    fault.argument = number<double>(kind.substr(equals + 1), std::string(of.name), place);
  }
  check(fault, place);
  return fault;
}

// One table of a TOML file, read key by key; what is left over is a mistake.
class TableReader {
 public:
  TableReader(const toml::table& table, const std::string& file, std::string_view what,
              std::initializer_list<std::string_view> keys)
      : table_(table), file_(file), what_(what) {
    for (const auto& [key, value] : table) {
      bool known = false;
      std::string names;
      for (const std::string_view name : keys) {
        known = known || key.str() == name;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
      }
      if (!known) {
        refuse(place_of(value),
               fmt::format("{} has no key \"{}\"; expected {}", what, key.str(), names));
      }
    }
  }

  std::string place_of(const toml::node& node) const {
    return fmt::format("{}:{}", file_, node.source().begin.line);
  }
  std::string place() const { return place_of(table_); }
  std::string place(std::string_view key) const {
    const toml::node* node = table_.get(key);
    return node == nullptr ? place() : place_of(*node);
  }

  // The value; nothing when the key is absent. Error bad_input for another type.
  template <typename Value>
  std::optional<Value> get(std::string_view key, const char* expected) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<Value> value = node->value<Value>();
    if (!value || (std::is_same_v<Value, std::int64_t> && !node->is_integer())) {
      refuse(place_of(*node), fmt::format("{}: expected {}", key, expected));
    }
    return value;
  }
  std::string need_text(std::string_view key) const {
    const auto value = get<std::string>(key, "a text");
    if (!value) refuse(place(), fmt::format("{} needs the key \"{}\"", what_, key));
    return *value;
  }

 private:
  const toml::table& table_;
  const std::string& file_;
  const std::string_view what_;
};

Fault fault_from(const toml::table& table, const std::string& file) {
  const TableReader reader(table, file, "a fault", {"point", "kind", "argument", "times", "run"});
  Fault fault;
  fault.point = parse_fault_point(reader.need_text("point"), reader.place("point"));
  fault.kind = parse_fault_kind(reader.need_text("kind"), reader.place("kind"));
  const auto argument = reader.get<double>("argument", "a number");
  if (argument && info(fault.kind).argument == ArgumentUse::none) {
    refuse(reader.place("argument"), fmt::format("{} takes no argument", name(fault.kind)));
  }
  fault.argument = argument.value_or(info(fault.kind).usual);
  const auto small = [&](std::string_view key, int usual) {
    const std::int64_t value = reader.get<std::int64_t>(key, "an integer").value_or(usual);
    if (value < 0 || value > 1'000'000) {
      refuse(reader.place(key), fmt::format("{}: found {}; expected 0 to 1000000", key, value));
    }
    return static_cast<int>(value);
  };
  fault.times = small("times", 1);
  fault.run = small("run", 0);
  check(fault, reader.place());
  return fault;
}

}  // namespace

std::string Fault::text() const {
  std::string out = run > 0 ? fmt::format("{}/", run) : "";
  out += fmt::format("{}!{}", point.text(), name(kind));
  if (info(kind).argument != ArgumentUse::none) out += fmt::format("={}", argument);
  if (times != 1) out += fmt::format("*{}", times);
  return out;
}

std::string text(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults) out += (out.empty() ? "" : ";") + fault.text();
  return out;
}

std::vector<Fault> parse_faults(std::string_view line, const std::string& place) {
  std::vector<Fault> faults;
  while (true) {
    const std::size_t end = line.find(';');
    faults.push_back(parse_fault(line.substr(0, end), place));
    if (end == line.npos) return faults;
    line.remove_prefix(end + 1);
  }
}

FaultScript parse_fault_script(std::string_view text, const std::string& file) {
  toml::table table;
  try {
    table = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("{}:{}", file, error.source().begin.line), std::string(error.description()));
  }
  const TableReader reader(table, file, "a fault script",
                           {"title", "run", "recover", "expect", "fault"});
  FaultScript script;
  script.title = reader.need_text("title");
  script.run_line = reader.get<std::string>("run", "a text").value_or("");
  script.recover = reader.get<std::string>("recover", "a text").value_or("");
  script.expect = reader.get<std::string>("expect", "a text").value_or("");
  const bool known = script.expect.empty() || script.expect == "survived-equal" ||
                     script.expect == "detected" || script.expect == "refused";
  if (!known) {
    refuse(reader.place("expect"),
           fmt::format("expect: found \"{}\"; expected survived-equal, detected or refused",
                       script.expect.substr(0, 60)));
  }
  const toml::node* faults = table.get("fault");
  if (faults == nullptr || !faults->is_array_of_tables()) {
    refuse(reader.place("fault"), "a fault script needs at least one [[fault]]");
  }
  for (const toml::node& one : *faults->as_array()) {
    script.faults.push_back(fault_from(*one.as_table(), file));
  }
  return script;
}

FaultScript load_fault_script(const std::string& path) {
  std::ifstream stream(path);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream.is_open() || stream.bad()) {
    refuse(path, "cannot be read; expected a fault script (TOML)");
  }
  return parse_fault_script(text, path);
}

}  // namespace shardproof
