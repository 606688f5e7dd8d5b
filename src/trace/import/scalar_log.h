// scalar_log: the scalars of one run by step, as the program itself logged them, with the digits it
// gave. Readers of formats feed a ScalarCollector every tag they meet; it keeps what was asked for.
// Thread rule: values; a collector belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

// What an import takes over; the keys of a step event.
inline constexpr std::array<const char*, 3> scalar_keys = {"loss", "grad_norm", "lr"};

struct ScalarOptions {
  // Names in the source, the first that is there counts. Empty: those that trainers use.
  std::vector<std::string> loss_tags, grad_norm_tags, lr_tags;
  // The number that the source gives its first step, which a trace calls 0. Default: the format's.
  std::optional<std::int64_t> first_step;
};

// How many digits a value has: decimals as printed (>= 0), or all bits of a stored float.
inline constexpr int float32_digits = -32, float64_digits = -64;

struct ScalarLog {
  struct Step {
    std::int64_t step = 0;
    std::array<std::optional<double>, scalar_keys.size()> values;
  };
  std::vector<Step> steps;                             // ascending, in the source's numbers
  std::array<std::string, scalar_keys.size()> tags;    // empty: none of the key's tags was there
  std::array<std::string, scalar_keys.size()> digits;  // "4 decimals", "float32"
  std::optional<bool> ended;                           // nothing: the source does not say
  bool torn = false;                                   // the end of the source is cut off
  std::vector<std::string> notes;
};

class ScalarCollector {
 public:
  // `between` stands between a file and a number in a place: ":" for lines, ": byte " for offsets.
  ScalarCollector(const ScalarOptions& options, std::string between);

  void open(const std::string& path);  // what is added now comes from there
  bool wants(std::string_view tag);    // remembers the tag: an Error names those that were found
  // A wanted value. Error corrupt when the tag has another value at this step already: the source
  // holds more than one run, or ranks disagree. The same value again is counted.
  void add(std::string_view tag, std::int64_t step, double value, int digits, std::uint64_t at);
  std::string place(std::uint64_t at) const;  // in the file that is open

  // Error bad_input when there is no loss.
  ScalarLog finish() const;

 private:
  struct Value {
    double value = 0;
    std::size_t file = 0;
    std::uint64_t at = 0;
  };
  struct Series {
    std::map<std::int64_t, Value> values;
    int fewest = 0, most = 0;  // digits
    std::int64_t again = 0;
  };

  std::string place(std::size_t file, std::uint64_t at) const;
  const std::string* chosen(const std::vector<std::string>& tags) const;
  std::string found_text() const;

  std::array<std::vector<std::string>, scalar_keys.size()> tags_;
  std::string between_;
  std::vector<std::string> files_;
  std::map<std::string, Series, std::less<>> series_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace shardproof
