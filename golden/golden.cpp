// Reading of golden tables.
#include "golden/golden.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr const char* header = "kind,name,index,value";

template <typename T>
bool parse_whole(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

std::vector<GoldenRow> parse_golden(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  std::string line;
  std::vector<GoldenRow> rows;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto refuse = [&](const std::string& expected) -> Error {
      return Error(ErrorKind::corrupt, fmt::format("{}:{}", file, number),
                   fmt::format("'{}'; expected {}", line, expected));
    };
    if (number == 1) {
      if (line != header) throw refuse(header);
      continue;
    }
    std::istringstream cells(line);
    GoldenRow row;
    std::string index, value;
    std::getline(cells, row.kind, ',');
    std::getline(cells, row.name, ',');
    std::getline(cells, index, ',');
    std::getline(cells, value);
    if (row.kind.empty() || row.name.empty() || !parse_whole(index, row.index) ||
        !parse_whole(value, row.value)) {
      throw refuse("kind,name,integer,number");
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty())
    throw Error(ErrorKind::corrupt, file, "no rows; expected " + std::string(header));
  return rows;
}

std::vector<GoldenRow> read_golden(const std::string& name) {
  const std::string path = std::string(SHARDPROOF_GOLDEN_EXPECTED) + "/" + name;
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::io, path, "cannot be opened; expected a golden table");
  std::ostringstream text;
  text << in.rdbuf();
  return parse_golden(text.str(), path);
}

}  // namespace shardproof
