// patch_header: lines up to the diff.
#include "harness/mutants/patch_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace shardproof {
namespace {

using Keys = std::map<std::string, std::string>;

// "Key: value" lines before the diff; an indented line goes on with the last one.
Keys read_keys(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorKind::io, "read " + path, "it is not there");
  Keys keys;
  std::string last;
  for (std::string line; std::getline(in, line) && !line.starts_with("--- ");) {
    const auto colon = line.find(": ");
    if (line.starts_with("  ") && !last.empty()) {
      keys[last] += line.substr(1);
    } else if (colon != std::string::npos) {
      last = line.substr(0, colon);
      keys[last] = line.substr(colon + 2);
    }
  }
  return keys;
}

std::string take(const Keys& keys, const std::string& key, const std::string& path) {
  const auto found = keys.find(key);
  if (found != keys.end()) return found->second;
  throw Error(ErrorKind::bad_input, path, "expected a line '" + key + ": ...' above the diff");
}

std::string take_or_nothing(const Keys& keys, const std::string& key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "" : found->second;
}

// The common Case with the assignments of `run` in place of its own.
std::string run_line(const std::string& common, const std::string& run) {
  std::vector<std::pair<std::string, std::string>> assignments;
  for (const std::string& text : {common, run}) {
    std::istringstream in(text);
    for (std::string assignment; in >> assignment;) {
      const std::string key = assignment.substr(0, assignment.find('='));
      std::erase_if(assignments, [&](const auto& known) { return known.first == key; });
      assignments.emplace_back(key, assignment);
    }
  }
  std::string line;
  for (const auto& [key, assignment] : assignments) {
    line += (line.empty() ? "" : " ") + assignment;
  }
  return line;
}

std::string common_case(const std::filesystem::path& folder) {
  std::ifstream in(folder / "case.txt");
  std::string line;
  if (!std::getline(in, line)) throw Error(ErrorKind::io, "read case.txt", "no first line");
  return line;
}

}  // namespace

PatchHeader read_patch_header(const std::string& path) {
  const Keys keys = read_keys(path);
  PatchHeader out;
  out.mutant = take(keys, "Mutant", path);
  out.bug = take(keys, "Bug", path);
  out.file = take(keys, "File", path);
  out.says = take(keys, "Says", path);
  out.why = take(keys, "Why", path);
  out.test = take_or_nothing(keys, "Test");
  if (out.is_test()) {
    out.test_case = take(keys, "Case", path);
    return out;
  }
  out.run = take(keys, "Run", path);
  out.verdict = take(keys, "Verdict", path);
  out.run_line = run_line(common_case(std::filesystem::path(path).parent_path()), out.run);
  return out;
}

std::string mutant_table(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> rows;  // by id and name
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".patch") continue;
    const PatchHeader patch = read_patch_header(entry.path().string());
    const std::string killer = patch.is_test()
                                   ? fmt::format("test `{}` of {}", patch.test_case, patch.test)
                                   : fmt::format("verdict `{}`", patch.verdict);
    rows.emplace_back(
        (patch.bug == "-" ? "~" : patch.bug) + " " + entry.path().stem().string(),
        fmt::format("| {} | `{}` | {} | {} | {} | {} |\n", patch.bug, entry.path().stem().string(),
                    patch.mutant, patch.is_test() ? "the test's own" : "`" + patch.run + "`",
                    killer, patch.why));
  }
  std::ranges::sort(rows);
  std::string page = fmt::format(
      "# Planted bugs\n\nWritten by `run_mutant table faults/mutants`. Ids name classes of public "
      "bugs (LN loss normalisation, GS gradient sync, SH sharding, GN norm and clip, RN dropout, "
      "TP "
      "tensor, SC sequence and context, PP pipeline, MA memory, CL checkpoint); - has none. A Run "
      "is `faults/mutants/case.txt` with these keys. Each must be caught as said; the same file "
      "unchanged must leave the same run green.\n\n{}\n\n"
      "| id | mutant | what is planted | run | caught by | why nothing weaker tells |\n"
      "|---|---|---|---|---|---|\n",
      fmt::format("{} mutants.", rows.size()));
  for (const auto& [order, row] : rows) page += row;
  return page;
}

}  // namespace shardproof
