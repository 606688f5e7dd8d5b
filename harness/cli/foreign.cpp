// foreign: see the header.
#include "harness/cli/foreign.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/foreign/foreign.h"
#include "checkpoint/locate.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

// Text from a file, harmless on a terminal: control characters are escaped.
std::string plain(const std::string& text) {
  const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

void print(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

Error damaged(const std::string& name, const Damage& damage, std::size_t count) {
  return Error(ErrorKind::corrupt, name + ": " + plain(damage.where),
               fmt::format("expected {}, found {}{}", plain(damage.expected), plain(damage.found),
                           count > 1 ? fmt::format(" (and {} damages more)", count - 1) : ""));
}

// A whole checkpoint, ours or another's.
foreign::Checkpoint open_whole(const std::string& text) {
  if (is_foreign(text)) {
    foreign::Checkpoint checkpoint = foreign::read_foreign(text);
    if (!checkpoint.damages.empty()) {
      throw damaged(text, checkpoint.damages[0], checkpoint.damages.size());
    }
    return checkpoint;
  }
  const Located located = locate_checkpoint(text);
  const auto storage = posix_storage(located.directory, false);
  const std::vector<Damage> damages = verify_checkpoint(*storage, located.id);
  if (!damages.empty()) throw damaged(located.name(), damages[0], damages.size());
  return foreign::view_of(located.directory, read_manifest(*storage, located.id));
}

}  // namespace

bool is_foreign(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return true;
  if (!fs::is_directory(path, error)) return false;
  if (!list_checkpoints(*posix_storage(path, false)).empty()) return false;
  return !foreign::format_of(path).empty();
}

int verify_foreign(const std::string& path, bool json) {
  const foreign::Checkpoint checkpoint = foreign::read_foreign(path);
  const bool whole = checkpoint.damages.empty();
  if (json) {
    Json tensors = Json::object(), damages = Json::array();
    for (const auto& [name, tensor] : checkpoint.tensors) {
      tensors[name] = {
          {"dtype", tensor.type.name}, {"shape", tensor.shape}, {"chunks", tensor.chunks.size()}};
    }
    for (const Damage& damage : checkpoint.damages) {
      damages.push_back(
          {{"where", damage.where}, {"expected", damage.expected}, {"found", damage.found}});
    }
    print({{"path", path},
           {"format", checkpoint.format},
           {"whole", whole},
           {"tensors", tensors},
           {"notes", checkpoint.notes},
           {"damages", damages}});
    return whole ? 0 : 1;
  }
  for (const Damage& damage : checkpoint.damages) {
    fmt::print("{}: damaged: {}: expected {}, found {}\n", path, plain(damage.where),
               plain(damage.expected), plain(damage.found));
  }
  for (const std::string& note : checkpoint.notes) fmt::print("{}: note: {}\n", path, plain(note));
  if (whole) {
    fmt::print("{}: whole ({}, {} tensors)\n", path, checkpoint.format, checkpoint.tensors.size());
  }
  return whole ? 0 : 1;
}

int diff_across(const std::string& left_name, const std::string& right_name, bool json) {
  foreign::Checkpoint left = open_whole(left_name), right = open_whole(right_name);
  const std::vector<StateDifference> differences = foreign::diff_foreign(left, right);
  if (json) {
    Json report = Json::array();
    for (const StateDifference& each : differences) {
      report.push_back({{"entry", each.entry},
                        {"element", each.element},
                        {"left", each.left},
                        {"right", each.right}});
    }
    print(report);
  } else if (!differences.empty()) {
    fmt::print("--- {} ({})\n+++ {} ({})\n", left_name, left.format, right_name, right.format);
    for (const StateDifference& each : differences) {
      const std::string element = each.element < 0 ? "" : fmt::format(" element {}", each.element);
      fmt::print("{}{}: {} | {}\n", plain(each.entry), element, plain(each.left),
                 plain(each.right));
    }
  }
  return differences.empty() ? 0 : 1;
}

}  // namespace shardproof
