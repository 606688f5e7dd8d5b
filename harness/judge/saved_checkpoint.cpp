// Where a checkpoint lies, and what is wrong with it.
#include "harness/judge/saved_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "checkpoint/foreign/foreign.h"
#include "checkpoint/locate.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// As foreign::format_of says it.
std::set<std::string> formats_of(const std::string& format) {
  if (format == "safetensors") return {"safetensors", "safetensors index"};
  if (format == "torch") return {"torch.save"};
  return {format};
}

// Places at or below `path` that say they are of one of the formats; a folder that is one of them
// is not looked into.
std::vector<std::string> find_checkpoints(const fs::path& path,
                                          const std::set<std::string>& formats) {
  if (formats.contains(foreign::format_of(path.string()))) return {path.string()};
  std::vector<std::string> out;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return out;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.is_symlink()) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    for (std::string& found : find_checkpoints(entry, formats)) out.push_back(std::move(found));
  }
  return out;
}

bool is_at_or_below(const fs::path& path, const fs::path& root) {
  std::error_code ignored;
  const fs::path below =
      fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(root, ignored));
  return !below.empty() && *below.begin() != "..";
}

// `notes`: what was said and does not count.
std::set<std::string> saved_paths(const Trace& trace, const SavedPlace& place,
                                  std::vector<std::string>& notes) {
  std::set<std::string> out, elsewhere, otherwise;
  if (place.silent && !trace.ranks.empty()) out.insert(place.path);
  for (const RankTrace& rank : trace.ranks) {
    for (const CheckpointRecord& each : rank.checkpoints) {
      if (!each.done) continue;
      const fs::path told = fs::path(place.base) / each.path;
      std::error_code ignored;
      if (each.step != place.step) {
        otherwise.insert(fmt::format("the save of step {} is not looked at: that of step {} is",
                                     each.step, place.step));
      } else if (each.path.empty() || !fs::exists(told, ignored)) {
        out.insert(place.path);
      } else if (is_at_or_below(told, place.path)) {
        out.insert(told.string());
      } else {
        elsewhere.insert(
            fmt::format("{} is not below {}, where the leg was told to save: it does "
                        "not count",
                        told.string(), place.path));
      }
    }
  }
  notes.insert(notes.end(), elsewhere.begin(), elsewhere.end());
  notes.insert(notes.end(), otherwise.begin(), otherwise.end());
  return out;
}

struct Finding {
  std::string damage;  // empty: whole
  std::string note;
};

std::string print(const Damage& damage) {
  return fmt::format("{}: expected {}, found {}", damage.where, damage.expected, damage.found);
}

Finding look_at_ours(const std::string& path) {
  const Located located = locate_checkpoint(path);
  const std::vector<Damage> damages =
      verify_checkpoint(*posix_storage(located.directory, false), located.id);
  return {damages.empty() ? "" : print(damages.front()), located.id + ": whole"};
}

Finding look_at_foreign(const std::string& path) {
  const foreign::Checkpoint found = foreign::read_foreign(path);
  if (found.damages.empty()) {
    return {"",
            fmt::format("{} ({}, {} tensors): whole", path, found.format, found.tensors.size())};
  }
  return {
      fmt::format("{}: {} ({} damages)", path, print(found.damages.front()), found.damages.size()),
      ""};
}

}  // namespace

std::optional<std::string> special_entry(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::is_directory(status)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (auto found = special_entry(entry.path().string())) return found;
    }
    return std::nullopt;
  }
  const bool plain = fs::is_regular_file(status) || fs::is_symlink(status) || !fs::exists(status);
  return plain ? std::nullopt : std::optional(path);
}

Verdict check_saved(const Trace& trace, const SavedPlace& place) {
  Verdict verdict;
  verdict.check = "checkpoint";
  verdict.sentence = fmt::format(
      "what the save left is of format {}, and every tensor of it is there, whole", place.format);
  verdict.outcome = Outcome::inconclusive;
  verdict.reason =
      fmt::format("no rank wrote a checkpoint event of step {} that says done", place.step);
  const auto fail = [&](const std::string& reason) {
    verdict.outcome = Outcome::fail;
    verdict.reason = reason;
    return verdict;
  };
  const std::set<std::string> paths = saved_paths(trace, place, verdict.notes);
  if (paths.empty() && !verdict.notes.empty()) verdict.reason += ": " + verdict.notes.front();
  for (const std::string& path : paths) {
    if (const auto odd = special_entry(path))
      return fail(*odd + ": is neither a file nor a folder");
    std::vector<std::string> found = {path};
    if (place.format != "shardproof") found = find_checkpoints(path, formats_of(place.format));
    if (found.empty()) {
      return fail(fmt::format("{}: nothing of format {} is there", path, place.format));
    }
    for (const std::string& each : found) try {
        const Finding finding =
            place.format == "shardproof" ? look_at_ours(each) : look_at_foreign(each);
        if (!finding.damage.empty()) return fail(finding.damage);
        verdict.notes.push_back(finding.note);
      } catch (const Error& error) {
        return fail(error.what());
      }
    verdict.outcome = Outcome::pass;
    verdict.reason.clear();
  }
  return verdict;
}

}  // namespace shardproof
