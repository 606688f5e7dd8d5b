// megatron_golden: see megatron_golden.h.
#include "trace/import/megatron_golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "base/json.h"
#include "trace/mapped_file.h"

namespace shardproof {
namespace {

constexpr int rounded_to = 5;  // decimals, by the tool that writes these files
constexpr std::int64_t last_step = std::numeric_limits<std::int64_t>::max() / 4;

int decimals(double value) {
  std::array<char, 512> text;
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed).ptr;
  const auto point = std::find(text.begin(), end, '.');
  return std::max(rounded_to, point == end ? 0 : static_cast<int>(end - point - 1));
}

class GoldenReader {
 public:
  GoldenReader(const std::string& path, const ScalarOptions& options)
      : path_(path), collector_(options, ": step ") {}

  ScalarLog read(std::int64_t& first_step) {
    const MappedFile file(path_);
    const Json json = parse_json(file.text(), path_);
    if (!json.is_object()) throw Error(ErrorKind::bad_input, path_, "expected an object of tags");
    collector_.open(path_);
    for (const auto& item : json.items()) {
      if (collector_.wants(item.key())) take(item.key(), item.value());
    }
    ScalarLog log = collector_.finish();
    if (lists_ > 0 && iterations_ > 0) {
      throw Error(ErrorKind::corrupt, path_, "values by iteration and lists of values in one file");
    }
    first_step = lists_ > 0 ? 0 : 1;
    return log;
  }

 private:
  void take(const std::string& tag, const Json& series) {
    const std::string place = path_ + ": " + tag;
    const Json& values = member(series, "values", place);
    const std::int64_t end = step_member(series, "end_step", place);
    if (values.is_object()) {
      ++iterations_;
      for (const auto& item : values.items()) add(tag, iteration(item.key(), place), item.value());
    } else if (values.is_array()) {
      ++lists_;
      std::int64_t step = step_member(series, "start_step", place);
      const std::int64_t interval = step_member(series, "step_interval", place);
      if (interval < 1) throw Error(ErrorKind::corrupt, place, "\"step_interval\": expected >= 1");
      for (const Json& value : values) {
        if (step > end) {
          throw Error(ErrorKind::corrupt, place,
                      fmt::format("{} values go beyond \"end_step\", {}", values.size(), end));
        }
        add(tag, step, value);
        step += interval;
      }
    } else {
      throw Error(ErrorKind::corrupt, place, "\"values\": expected an object or an array");
    }
  }

  void add(const std::string& tag, std::int64_t step, const Json& value) {
    if (value == "nan") return;  // the tool's word for: nothing was logged
    if (!value.is_number()) {
      throw Error(ErrorKind::corrupt, fmt::format("{}: {} of step {}", path_, tag, step),
                  fmt::format("expected a number, found {}", value.dump().substr(0, 40)));
    }
    const double number = value.get<double>();
    collector_.add(tag, step, number, decimals(number), static_cast<std::uint64_t>(step));
  }

  static std::int64_t iteration(const std::string& text, const std::string& place) {
    std::int64_t step = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), step);
    if (code == std::errc() && end == text.data() + text.size() && step >= 0 && step <= last_step) {
      return step;
    }
    throw Error(ErrorKind::corrupt, place,
                fmt::format("iteration \"{}\": expected a number", text.substr(0, 40)));
  }

  static std::int64_t step_member(const Json& series, const char* key, const std::string& place) {
    const std::int64_t step = integer_member(series, key, place);
    if (step >= 0 && step <= last_step) return step;
    throw Error(ErrorKind::corrupt, place, fmt::format("\"{}\": {}; expected >= 0", key, step));
  }

  const std::string& path_;
  ScalarCollector collector_;
  int lists_ = 0, iterations_ = 0;
};

}  // namespace

ScalarLog read_megatron_golden(const std::string& path, const ScalarOptions& options,
                               std::int64_t& first_step) {
  return GoldenReader(path, options).read(first_step);
}

}  // namespace shardproof
