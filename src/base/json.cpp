// json: the library's SAX parser with a builder of our own that refuses what its own lets pass.
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace shardproof {
namespace {

constexpr std::size_t max_depth = 64;
constexpr std::size_t max_message = 200;
constexpr std::size_t small_object = 32;

// Feeds the parser and tells how far it has read, so that an error can name a line.
struct TrackingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** read_to;

  reference operator*() const { return *at; }
  TrackingIterator& operator++() {
    *read_to = ++at;
    return *this;
  }
  bool operator==(const TrackingIterator& other) const { return at == other.at; }
};

// Builds the value and refuses what the library's own builder lets pass.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }
  // Bytes read up to and with the offending one, where the lexer told; it may have read ahead.
  std::optional<std::size_t> position() const { return position_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary value"); }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    Container& object = open_.back();
    auto& members = object.value->get_ref<Json::object_t&>();
    if (!object.add_key(value)) return refuse(fmt::format("duplicate key \"{}\"", value));
    // Not operator[]: it would search again.
    members.emplace_back(std::move(value), nullptr);
    slot_ = &members.back().second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const Json::exception& error) override {
    position_ = position;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: what" -> "what": the
    // library's line counts from this text and not from the file.
    std::string_view text = error.what();
    for (const std::string_view mark : {"] ", ": "}) {
      if (const auto at = text.find(mark); at != text.npos) text.remove_prefix(at + mark.size());
    }
    return refuse(fmt::format("not JSON: {}", text.substr(0, max_message)));
  }

 private:
  template <typename T>
  bool put(T&& value) {
    place() = std::forward<T>(value);
    return true;
  }

  bool open(Json container) {
    if (open_.size() == max_depth) {
      return refuse(fmt::format("nested deeper than {} levels", max_depth));
    }
    Json& target = place();
    target = std::move(container);
    open_.push_back({&target, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  // Where the next value goes. Pointers in open_ stay valid: a container grows only while it is
  // the innermost one.
  Json& place() {
    if (open_.empty()) return root_;
    Json& innermost = *open_.back().value;
    if (innermost.is_object()) return *slot_;
    innermost.push_back(nullptr);
    return innermost.back();
  }

  bool refuse(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  struct Container {
    Json* value;
    std::set<std::string> keys;  // filled once the object is large: a search stays cheap

    bool add_key(const std::string& key) {
      const auto& members = value->get_ref<const Json::object_t&>();
      if (members.size() < small_object) return !value->contains(key);
      if (keys.empty()) {
        for (const auto& member : members) keys.insert(member.first);
      }
      return keys.insert(key).second;
    }
  };

  Json root_;
  std::vector<Container> open_;
  Json* slot_ = nullptr;
  std::string problem_;
  std::optional<std::size_t> position_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& origin, ErrorKind kind, int first_line) {
  const auto refuse_at = [&](std::size_t offset, const std::string& problem) {
    const std::string_view before = text.substr(0, offset);
    const auto newlines = std::count(before.begin(), before.end(), '\n');
    throw Error(kind, fmt::format("{}:{}", origin, first_line + newlines), problem);
  };
  if (const auto zero = text.find('\0'); zero != text.npos) {  // to the library, an end of input
    refuse_at(zero, "not JSON: a zero byte");
  }
  const char* read_to = text.data();
  const TrackingIterator begin{text.data(), &read_to};
  const TrackingIterator end{text.data() + text.size(), &read_to};
  StrictBuilder builder;
  if (!Json::sax_parse(begin, end, &builder)) {
    const std::size_t read = builder.position().value_or(read_to - text.data());
    refuse_at(std::max<std::size_t>(read, 1) - 1, builder.problem());
  }
  return builder.take();
}

std::string bits_hex(double value) {
  return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value));
}

double from_bits_hex(std::string_view hex) {
  std::uint64_t bits = 0;
  const char* end = hex.data() + hex.size();
  const auto result = std::from_chars(hex.data(), end, bits, 16);
  if (hex.size() != 16 || result.ec != std::errc() || result.ptr != end) {
    throw Error(ErrorKind::bad_input, fmt::format("bits \"{}\"", hex.substr(0, 40)),
                "expected the 16 hex digits of a double");
  }
  return std::bit_cast<double>(bits);
}

const Json& member(const Json& object, const char* key, const std::string& place) {
  if (!object.is_object()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("expected an object with \"{}\", found {}", key, object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    throw Error(ErrorKind::corrupt, place, fmt::format("\"{}\" is missing", key));
  }
  return *found;
}

std::string string_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_string()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\": expected a string, found {}", key, value.type_name()));
  }
  return value.get<std::string>();
}

std::int64_t integer_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  const bool too_large = value.is_number_unsigned() &&
                         value.get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || too_large) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\": expected a 64-bit integer, found {}", key,
                            value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

}  // namespace shardproof
