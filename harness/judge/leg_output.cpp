// Lines of an output that may be long, binary, or a launcher's.
#include "harness/judge/leg_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <vector>

#include "base/json.h"

namespace shardproof {
namespace {

constexpr std::size_t last_count = 3, width = 200;
constexpr std::streamoff tail = 1 << 20;  // that much of a file is looked at

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - tail));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r=-") == std::string::npos) continue;
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

bool has_text(const std::string& line, std::size_t at) {
  return line.find_first_not_of(' ', at) != std::string::npos;
}

// "[rank1]: ValueError: no such thing", "error: no such thing"; not a launcher's sum of them.
bool looks_like_error(const std::string& line) {
  for (const char* launcher : {"ChildFailedError", "torch.distributed.elastic"}) {
    if (line.find(launcher) != std::string::npos) return false;
  }
  constexpr std::array<std::string_view, 3> words = {"Error: ", "Exception: ", "Interrupt: "};
  for (const std::string_view word : words) {
    const std::size_t at = line.find(word);
    if (at != std::string::npos && has_text(line, at + word.size())) return true;
  }
  constexpr std::string_view plain = "error:";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(line.begin(), line.end(), plain.begin(), plain.end(), same);
  return found != line.end() &&
         has_text(line, static_cast<std::size_t>(found - line.begin()) + plain.size());
}

}  // namespace

std::string whole_utf8(const std::string& text, std::size_t bytes) {
  std::size_t end = std::min(bytes, text.size());
  const auto inside = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  // No character is longer than 4 bytes.
  for (int back = 0; end < text.size() && end > 0 && back < 3 && inside(end); ++back) --end;
  const Json cut = text.substr(0, end);
  return Json::parse(cut.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::string last_words(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  if (lines.empty()) return fmt::format("it printed nothing ({})", path);
  const std::size_t begin = lines.size() - std::min(lines.size(), last_count);
  std::vector<std::string> last;
  for (std::size_t i = begin; i < lines.size(); ++i) last.push_back(whole_utf8(lines[i], width));
  std::string out;
  const auto error = std::find_if(lines.rbegin(), lines.rend(), looks_like_error);
  if (error != lines.rend() && static_cast<std::size_t>(lines.rend() - error) <= begin) {
    out = fmt::format("it printed: {}; ", whole_utf8(*error, width));
  }
  return out + fmt::format("it printed last: {} (all of it: {})", fmt::join(last, " | "), path);
}

}  // namespace shardproof
