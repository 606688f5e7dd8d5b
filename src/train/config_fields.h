// config_fields: every key of the config, listed once: its section, name, member, legal values and
// a sentence. Parsing, printing, --set, run lines, digests and range checks all walk this list.
// Thread rule: values.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "train/config.h"

namespace shardproof {

// Legal values of a key, or of the items of a list: numbers in [lo, hi] (without an end where
// `open_lo` / `open_hi`), or one of `choices`.
struct Range {
  double lo = -std::numeric_limits<double>::max();
  double hi = std::numeric_limits<double>::max();
  bool open_lo = false;
  bool open_hi = false;
  std::vector<std::string_view> choices;
};

// Which lines and digests a key belongs to.
enum class KeyUse {
  bits,  // determines the bits of a step: in the Case line and in the Case digest
  line,  // part of the Case line only: how far, from which file, how cut up; not the bits
  run,   // part of the Run line only
};

struct Field {
  std::string section;
  std::string_view key;
  std::variant<int*, double*, bool*, std::string*, std::vector<int>*, std::vector<std::string>*,
               std::vector<SourceSection>*>
      member;
  Range range;
  KeyUse use = KeyUse::bits;
  std::string_view doc;

  std::string name() const;      // "training.steps"
  std::string expected() const;  // "an integer >= 1"
  Json value() const;
};

// All keys in struct order. The fields point into `config`.
std::vector<Field> fields(Config& config);

const Field* find_field(const std::vector<Field>& all, std::string_view section,
                        std::string_view key);
bool is_section(const std::vector<Field>& all, std::string_view section);

// A value as TOML, JSON and run lines all spell it. Precondition: valid UTF-8.
std::string spell(const Json& value);

// Sets a field; Error bad_input at `place` unless the type is the field's (an integer is a legal
// float) and the value is in range.
void assign(const Field& field, const Json& value, const std::string& place);
// Error bad_input at `place` when the value is out of range.
void check_range(const Field& field, const std::string& place);

// Error bad_input at `place`: `found` is not a value of the field.
[[noreturn]] void refuse_value(const Field& field, const std::string& found,
                               const std::string& place);
// Error bad_input at `place`: an unknown section or key, with the nearest known one.
[[noreturn]] void unknown_section(const std::vector<Field>& all, std::string_view section,
                                  const std::string& place);
[[noreturn]] void unknown_key(const std::vector<Field>& all, std::string_view section,
                              std::string_view key, const std::string& place);

}  // namespace shardproof
