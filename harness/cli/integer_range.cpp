// integer_range: the text is looked at before CLI11 converts it.
#include "harness/cli/integer_range.h"

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

}  // namespace shardproof
