// option_values: an empty text says that a value is legal.
#include "harness/cli/option_values.h"

#include <fmt/format.h>

#include <charconv>

namespace shardproof {

CLI::Validator integer_range(int lo, int hi) {
  const auto wrong = [lo, hi](const std::string& text) -> std::string {
    int value = 0;
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec == std::errc() && result.ptr == end && value >= lo && value <= hi) return "";
    return fmt::format("found {}; expected an integer from {} to {}", text, lo, hi);
  };
  return CLI::Validator([wrong](std::string& text) { return wrong(text); },
                        fmt::format("from {} to {}", lo, hi));
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) {
        return std::string(text.empty() ? "found an empty text; leave the option out instead" : "");
      },
      "");
}

}  // namespace shardproof
