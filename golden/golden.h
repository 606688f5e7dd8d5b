// golden: numbers computed once by an independent program and kept in golden/expected (see
// make_golden.py). Reading only; nothing here writes them.
// Errors: Error io when a file cannot be read, corrupt with file and line for any row that is not
// kind,name,index,value. Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardproof {

struct GoldenRow {
  std::string kind;  // loss | count | weight | mask | gradient | norm
  std::string name;
  std::int64_t index = 0;
  double value = 0;
};

std::vector<GoldenRow> parse_golden(const std::string& text, const std::string& file);
// `name` within golden/expected of the source tree, such as "first_step_tiny.csv".
std::vector<GoldenRow> read_golden(const std::string& name);

}  // namespace shardproof
