// layout_parse: reads a layout's text; see layout.h for the grammar.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "base/error.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr std::string_view grammar =
    "parts of dpN, tpN, sp, cpN[-ring|-zigzag|-ulysses], ppN[-gpipe|-1f1b|-intV|-zb], epN, "
    "zeroK[-shardF], fsdp, such as dp2.tp2.zero1 or dp=2,tp=2";

// One part of a layout's text, cut into its word, its number and what follows '-'.
struct Part {
  std::string_view text;
  std::string_view word;
  std::string_view number;
  std::string_view option;
  bool has_option = false;
};

class LayoutParser {
 public:
  explicit LayoutParser(std::string_view text) : text_(text) {}

  Layout parse() {
    if (text_.empty()) fail("an empty layout", grammar);
    for (std::size_t begin = 0; begin <= text_.size();) {
      const std::size_t end = std::min(text_.find_first_of(".,", begin), text_.size());
      take(cut(text_.substr(begin, end - begin)));
      begin = end + 1;
    }
    finish();
    return layout_;
  }

 private:
  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw Error(ErrorKind::bad_input, fmt::format("layout \"{}\"", text_),
                fmt::format("found {}; expected {}", found, expected));
  }

  Part cut(std::string_view text) const {
    if (text.empty()) fail("an empty part", grammar);
    Part part;
    part.text = text;
    if (const auto dash = text.find('-'); dash != text.npos) {
      part.option = text.substr(dash + 1);
      part.has_option = true;
      text = text.substr(0, dash);
    }
    const auto digits = std::min(text.find_first_of("0123456789="), text.size());
    part.word = text.substr(0, digits);
    part.number = text.substr(digits);
    if (part.number.starts_with('=')) part.number.remove_prefix(1);
    return part;
  }

  int number(const Part& part, std::string_view text, int lo, int hi) const {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < lo || value > hi) {
      fail(fmt::format("part \"{}\"", part.text),
           hi == std::numeric_limits<int>::max()
               ? fmt::format("{} with a whole number >= {}", part.word, lo)
               : fmt::format("{} with a whole number from {} to {}", part.word, lo, hi));
    }
    return value;
  }

  int degree(const Part& part) const {
    return number(part, part.number, 1, std::numeric_limits<int>::max());
  }

  void no_option(const Part& part) const {
    if (part.has_option) {
      fail(fmt::format("part \"{}\"", part.text), fmt::format("nothing after {}", part.word));
    }
  }

  void no_number(const Part& part) const {
    if (part.text.substr(part.word.size()).starts_with('=') || !part.number.empty()) {
      fail(fmt::format("part \"{}\"", part.text), fmt::format("{} without a number", part.word));
    }
  }

  void take(const Part& part) {
    const std::string_view word = part.word;
    const std::string once(word == "fsdp" ? "zero" : word);
    if (!seen_.insert(once).second) {
      fail(fmt::format("a second part \"{}\"", part.text), fmt::format("each part once"));
    }
    if (word == "dp" || word == "tp" || word == "ep") {
      no_option(part);
      (word == "dp" ? layout_.dp : word == "tp" ? layout_.tp : layout_.ep) = degree(part);
    } else if (word == "sp") {
      no_number(part);
      no_option(part);
      layout_.sequence_parallel = true;
    } else if (word == "cp") {
      take_context(part);
    } else if (word == "pp") {
      take_pipeline(part);
    } else if (word == "zero" || word == "fsdp") {
      take_zero(part);
    } else {
      fail(fmt::format("part \"{}\"", part.text), grammar);
    }
  }

  void take_context(const Part& part) {
    layout_.cp = degree(part);
    if (!part.has_option) return;
    if (layout_.cp == 1) fail(fmt::format("part \"{}\"", part.text), "cp >= 2 to have a kind");
    if (part.option != "ring" && part.option != "zigzag" && part.option != "ulysses") {
      fail(fmt::format("part \"{}\"", part.text), "cpN, cpN-ring, cpN-zigzag or cpN-ulysses");
    }
    layout_.context_kind = part.option;
  }

  void take_pipeline(const Part& part) {
    layout_.pp = degree(part);
    if (!part.has_option) return;
    if (layout_.pp == 1) fail(fmt::format("part \"{}\"", part.text), "pp >= 2 to have a schedule");
    if (part.option.starts_with("int")) {
      const int chunks = number(part, part.option.substr(3), 2, std::numeric_limits<int>::max());
      layout_.schedule = fmt::format("int{}", chunks);
    } else if (part.option == "gpipe" || part.option == "1f1b" || part.option == "zb") {
      layout_.schedule = part.option;
    } else {
      fail(fmt::format("part \"{}\"", part.text),
           "ppN, ppN-gpipe, ppN-1f1b, ppN-intV (V >= 2) or ppN-zb");
    }
  }

  void take_zero(const Part& part) {
    if (part.word == "fsdp") {
      no_number(part);
      layout_.zero = 3;
    } else {
      layout_.zero = number(part, part.number, 0, 3);
    }
    if (!part.has_option) return;
    if (layout_.zero == 0) fail(fmt::format("part \"{}\"", part.text), "zero >= 1 to have shards");
    if (!part.option.starts_with("shard")) {
      fail(fmt::format("part \"{}\"", part.text), "zeroK or zeroK-shardF");
    }
    layout_.shard_group = number(part, part.option.substr(5), 1, std::numeric_limits<int>::max());
  }

  void finish() const {
    if (layout_.sequence_parallel && layout_.tp == 1) {
      fail("sp without tp", "tp >= 2 beside sp, which reuses its group");
    }
    long long world = 1;
    for (const int degree : {layout_.dp, layout_.tp, layout_.cp, layout_.pp, layout_.ep}) {
      world *= degree;
      if (world > std::numeric_limits<int>::max()) {
        fail("more than 2^31 - 1 ranks", "a smaller product of degrees");
      }
    }
  }

  std::string_view text_;
  Layout layout_;
  std::set<std::string> seen_;
};

}  // namespace

Layout parse_layout(std::string_view text) {
  return LayoutParser(text).parse();
}

}  // namespace shardproof
