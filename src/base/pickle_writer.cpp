// pickle_writer: JSON as a pickle of protocol 2, without the memo.
#include <bit>
#include <cstdint>

#include "base/check.h"
#include "base/pickle.h"

namespace shardproof {

namespace {

void append_number(std::string& out, std::uint64_t number, int width) {  // little-endian
  for (int i = 0; i < width; ++i) out += static_cast<char>(number >> 8 * i & 0xff);
}

void append_integer(std::string& out, std::int64_t value) {
  if (value >= 0 && value < 256) {
    out += 'K';
    append_number(out, static_cast<std::uint64_t>(value), 1);
  } else if (value == static_cast<std::int32_t>(value)) {
    out += 'J';
    append_number(out, static_cast<std::uint32_t>(value), 4);
  } else {
    out += "\x8a\x08";
    append_number(out, static_cast<std::uint64_t>(value), 8);
  }
}

void append_text(std::string& out, std::string_view text) {
  out += 'X';
  append_number(out, text.size(), 4);
  out += text;
}

void append(std::string& out, const Json& value, std::string_view tuple_key, bool tuple) {
  switch (value.type()) {
    case Json::value_t::null:
      out += 'N';
      return;
    case Json::value_t::boolean:
      out += value.get<bool>() ? '\x88' : '\x89';
      return;
    case Json::value_t::number_unsigned:
      SP_CHECK_LE(value.get<std::uint64_t>(), static_cast<std::uint64_t>(INT64_MAX));
      [[fallthrough]];
    case Json::value_t::number_integer:
      append_integer(out, value.get<std::int64_t>());
      return;
    case Json::value_t::number_float: {
      const auto bits = std::bit_cast<std::uint64_t>(value.get<double>());
      out += 'G';
      for (int i = 7; i >= 0; --i) out += static_cast<char>(bits >> 8 * i & 0xff);
      return;
    }
    case Json::value_t::string:
      append_text(out, value.get_ref<const std::string&>());
      return;
    case Json::value_t::array:
      out += tuple ? "(" : "](";
      for (const Json& item : value) append(out, item, tuple_key, false);
      out += tuple ? 't' : 'e';
      return;
    case Json::value_t::object:
      out += "}(";
      for (const auto& [key, item] : value.items()) {
        append_text(out, key);
        append(out, item, tuple_key, key == tuple_key);
      }
      out += 'u';
      return;
    default:
      SP_CHECK(false, "no pickle of " + std::string(value.type_name()));
  }
}

}  // namespace

std::string to_pickle(const Json& value, std::string_view tuple_key) {
  std::string out = "\x80\x02";
  append(out, value, tuple_key, false);
  out += '.';
  return out;
}

}  // namespace shardproof
