// event: the JSON of step and tensor lines, written and read back strictly.
#include "trace/event.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/error.h"
#include "trace/missing.h"
#include "trace/tensor_place.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 6> phase_names = {"forward", "backward",  "reduced",
                                                         "clipped", "optimizer", "save"};
constexpr std::array<std::string_view, 11> step_keys = {
    "kind", "step",    "loss",   "loss_bits", "grad_norm", "grad_norm_bits",
    "lr",   "lr_bits", "tokens", "samples",   "skipped"};

// Whether `shown` is `value`, rounded to the digits that `shown` has in decimal. Trailing zeros are
// not seen: 4.0 may stand for anything in [3.5, 4.5].
bool is_rounded(double shown, double value) {
  if (shown == value) return true;
  if (!std::isfinite(shown) || !std::isfinite(value)) return false;
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), shown, std::chars_format::scientific);
  const std::string_view digits(text.data(), static_cast<std::size_t>(end.ptr - text.data()));
  const std::size_t e = digits.find('e'), point = digits.find('.');
  const int decimals = point == digits.npos ? 0 : static_cast<int>(e - point - 1);
  const int exponent = std::stoi(std::string(digits.substr(e + 1)));
  const double last_bit = std::nextafter(std::abs(shown), HUGE_VAL) - std::abs(shown);
  return std::abs(shown - value) <= 0.5 * std::pow(10.0, exponent - decimals) + last_bit;
}

void check_number(const Json& line, const std::string& key, double bits, const std::string& place) {
  const auto number = line.find(key);
  if (number == line.end() || number->is_null()) return;
  if (number->is_number() && is_rounded(number->get<double>(), bits)) return;
  throw Error(
      ErrorKind::corrupt, place,
      fmt::format("\"{}\" is {}, but \"{}_bits\" are those of {}", key, number->dump(), key, bits));
}

// Numbers print rounded by some writers and cannot hold NaN: the bits, where given, are the value.
double float_member(const Json& line, const std::string& key, const std::string& place) {
  const std::string bits_key = key + "_bits";
  if (line.contains(bits_key)) {
    const std::string hex = string_member(line, bits_key.c_str(), place);
    double value = 0;
    try {
      value = from_bits_hex(hex);
    } catch (const Error& error) {
      throw Error(ErrorKind::corrupt, place,
                  fmt::format("\"{}\": {}: {}", bits_key, error.place(), error.detail()));
    }
    check_number(line, key, value, place);
    return value;
  }
  const Json& value = member(line, key.c_str(), place);
  if (!value.is_number()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\": expected a number (or \"{}\"), found {}", key, bits_key,
                            value.type_name()));
  }
  return value.get<double>();
}

void put_float(Json& line, const std::string& key, double value) {
  line[key] = value;
  line[key + "_bits"] = bits_hex(value);
}

// A float that the line says it lacks is NaN.
double float_unless_missing(const Json& line, const StepRecord& record, const char* key,
                            const std::string& place) {
  if (!is_missing(record, key)) return float_member(line, key, place);
  return std::numeric_limits<double>::quiet_NaN();
}

// A line that gives what it says to lack is damaged.
void check_missing(const Json& line, const StepRecord& record, const std::string& place) {
  for (const std::string& key : missing_keys(record)) {
    if (!line.contains(key) && !line.contains(key + "_bits")) continue;
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\" is there, and listed in \"missing\"", key));
  }
}

Json box_json(const Box& box) {
  return Json{{"offsets", box.offsets}, {"shape", box.shape}};
}

std::string digest_text(const Json& value, const char* key, const std::string& place) {
  if (value.is_string()) {
    try {
      return Digest::from_hex(value.get_ref<const std::string&>()).hex();
    } catch (const Error&) {  // named below
    }
  }
  throw Error(ErrorKind::corrupt, place, fmt::format("\"{}\": expected a SHA-256 in hex", key));
}

std::vector<std::string> block_digests(const Json& line, std::int64_t expected,
                                       const std::string& place) {
  const Json& values = member(line, "blocks", place);
  if (!values.is_array() || static_cast<std::int64_t>(values.size()) != expected) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"blocks\": expected an array of {} digests", expected));
  }
  std::vector<std::string> digests;
  for (const Json& value : values) digests.push_back(digest_text(value, "blocks", place));
  return digests;
}

Dtype dtype_member(const Json& line, const std::string& place) {
  const std::string text = string_member(line, "dtype", place);
  try {
    return dtype_from_name(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::corrupt, place, error.place() + ": " + error.detail());
  }
}

}  // namespace

std::string_view name(Phase phase) {
  const auto index = static_cast<std::size_t>(phase);
  SP_CHECK_LT(index, phase_names.size());
  return phase_names[index];
}

Phase phase_from_name(std::string_view name) {
  for (std::size_t i = 0; i < phase_names.size(); ++i) {
    if (phase_names[i] == name) return static_cast<Phase>(i);
  }
  throw Error(ErrorKind::bad_input, fmt::format("phase \"{}\"", name.substr(0, 40)),
              "expected forward, backward, reduced, clipped, optimizer or save");
}

Json to_json(const StepRecord& record) {
  Json line{{"kind", "step"}, {"step", record.step}};
  put_float(line, "loss", record.loss);
  put_float(line, "grad_norm", record.grad_norm);
  put_float(line, "lr", record.lr);
  line["tokens"] = record.tokens;
  if (!record.extra.contains("samples")) line["samples"] = record.samples;
  line["skipped"] = record.skipped;
  for (const auto& item : record.extra.items()) {
    SP_CHECK(!line.contains(item.key()), "step event: extra key " + item.key());
    line[item.key()] = item.value();
  }
  for (const std::string& key : missing_keys(record)) {
    line.erase(key);
    line.erase(key + "_bits");
  }
  return line;
}

StepRecord step_from_json(const Json& line, const std::string& place) {
  StepRecord record;
  for (const auto& item : line.items()) {
    bool known = false;
    for (const std::string_view key : step_keys) known = known || key == item.key();
    if (!known) record.extra[item.key()] = item.value();
  }
  check_missing(line, record, place);
  record.step = integer_member(line, "step", place);
  record.loss = float_unless_missing(line, record, "loss", place);
  record.grad_norm = float_unless_missing(line, record, "grad_norm", place);
  record.lr = float_unless_missing(line, record, "lr", place);
  if (!is_missing(record, "tokens")) record.tokens = integer_member(line, "tokens", place);
  if (!is_missing(record, "samples")) {
    const Json& samples = member(line, "samples", place);
    if (samples.is_object()) {
      record.extra["samples"] = samples;
    } else {
      record.samples = integers_member(line, "samples", place);
    }
  }
  if (const auto skipped = line.find("skipped"); skipped != line.end()) {
    if (!skipped->is_boolean()) {
      throw Error(ErrorKind::corrupt, place, "\"skipped\": expected true or false");
    }
    record.skipped = skipped->get<bool>();
  }
  return record;
}

Json to_json(const TensorRecord& record) {
  const TensorPlace& place = record.place;
  Json line{{"kind", "tensor"},          {"step", record.step},
            {"what", record.what},       {"name", place.name},
            {"piece", place.piece},      {"global_shape", place.global_shape},
            {"box", box_json(place.box)}};
  if (place.is_run) line["range"] = {place.range.lo, place.range.hi};
  line["dtype"] = name(record.dtype);
  if (record.blocks.empty()) {
    line["sha256"] = record.sha256;
  } else {
    line["blocks"] = record.blocks;
  }
  put_float(line, "norm", record.norm);
  return line;
}

TensorRecord tensor_from_json(const Json& line, const std::string& place) {
  TensorRecord record;
  record.step = integer_member(line, "step", place);
  record.what = string_member(line, "what", place);
  record.place.name = string_member(line, "name", place);
  record.place.global_shape = integers_member(line, "global_shape", place);
  const Json& box = member(line, "box", place);
  record.place.box = {integers_member(box, "offsets", place), integers_member(box, "shape", place)};
  record.place.piece = piece_member(line, place);
  record.place.is_run = line.contains("range");
  if (record.place.is_run) record.place.range = range_member(line, "range", place);
  check_place(record.place, place);
  record.dtype = dtype_member(line, place);
  record.norm = float_member(line, "norm", place);
  if (line.contains("blocks")) {
    record.blocks = block_digests(line, digest_blocks(record.place), place);
  } else {
    record.sha256 = digest_text(member(line, "sha256", place), "sha256", place);
  }
  return record;
}

}  // namespace shardproof
