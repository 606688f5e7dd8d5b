// torchtitan_log: a line is words; a word that ends in a colon names the word behind it.
#include "trace/import/torchtitan_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "trace/mapped_file.h"

namespace shardproof {
namespace {

constexpr double no_loss_here = -1;  // on stages of a pipeline that do not hold the loss
constexpr std::string_view last_words = "Training completed";

// Without escape sequences (ESC [ ... letter).
std::string plain(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && (line[i + 1] < '@' || line[i + 1] > '~')) ++i;
    ++i;  // the letter
  }
  return out;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r|";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == line.npos) return words;
    const std::size_t end = std::min(line.find_first_of(blanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line = line.substr(end);
  }
}

using Pair = std::pair<std::string_view, std::string_view>;  // name, value

// The pairs from `step` on; none when the line has no step, or one of validation.
std::vector<Pair> pairs_of(const std::vector<std::string_view>& words) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t colon = words[i].find(':');
    if (colon == words[i].npos) continue;
    const std::string_view name = words[i].substr(0, colon);
    if (pairs.empty() && (name != "step" || (i > 0 && words[i - 1] == "validate"))) continue;
    if (colon + 1 < words[i].size()) {
      pairs.emplace_back(name, words[i].substr(colon + 1));
    } else {
      pairs.emplace_back(name, i + 1 < words.size() ? words[i + 1] : std::string_view());
    }
  }
  return pairs;
}

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int decimals(std::string_view text) {
  const std::size_t point = text.find('.');
  return point == text.npos ? 0 : static_cast<int>(text.size() - point - 1);
}

class LogReader {
 public:
  explicit LogReader(const ScalarOptions& options) : collector_(options, ":") {}

  ScalarLog read(const std::string& path) {
    const MappedFile file(path);
    collector_.open(path);
    std::string_view rest = file.text();
    bool ended = false;
    for (std::uint64_t line = 1; rest.find('\n') != rest.npos; ++line) {
      const std::string text = plain(rest.substr(0, rest.find('\n')));
      rest = rest.substr(rest.find('\n') + 1);
      ended = ended || text.find(last_words) != text.npos;
      take(text, line);
    }
    ScalarLog log = collector_.finish();
    log.ended = ended;
    log.torn = !rest.empty();
    if (stages_ > 0) {
      log.notes.push_back(
          fmt::format("{} lines print a loss of -1: stages of a pipeline that have none", stages_));
    }
    return log;
  }

 private:
  void take(const std::string& text, std::uint64_t line) {
    const std::vector<std::string_view> words = words_of(text);
    const std::vector<Pair> pairs = pairs_of(words);
    std::optional<std::int64_t> step;
    for (const auto& [name, value] : pairs) {
      if (name == "step") {
        step = number<std::int64_t>(value);
      } else if (collector_.wants(name)) {
        if (!step) fail(line, "step", pairs.front().second);
        add(name, *step, value, line);
      }
    }
  }

  void add(std::string_view name, std::int64_t step, std::string_view text, std::uint64_t line) {
    const std::optional<double> value = number<double>(text);
    if (!value) fail(line, name, text);
    if (name == "loss" && *value == no_loss_here) {
      ++stages_;
      return;
    }
    collector_.add(name, step, *value, decimals(text), line);
  }

  [[noreturn]] void fail(std::uint64_t line, std::string_view name, std::string_view text) const {
    throw Error(ErrorKind::corrupt, collector_.place(line),
                fmt::format("{}: expected a number, found \"{}\"", name, text.substr(0, 40)));
  }

  ScalarCollector collector_;
  std::int64_t stages_ = 0;
};

}  // namespace

ScalarLog read_torchtitan_log(const std::string& path, const ScalarOptions& options) {
  return LogReader(options).read(path);
}

}  // namespace shardproof
