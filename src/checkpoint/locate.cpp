// locate: see locate.h.
#include "checkpoint/locate.h"

#include <filesystem>

#include "base/error.h"

namespace shardproof {

std::string Located::name() const {
  return (std::filesystem::path(directory) / id).string();
}

Located locate_checkpoint(const std::string& text) {
  Located out{text, ""};
  std::error_code ignored;
  if (!std::filesystem::is_directory(text, ignored)) {
    const std::filesystem::path path(text);
    out.directory = path.has_parent_path() ? path.parent_path().string() : ".";
    out.id = path.filename().string();
    return out;
  }
  const std::vector<std::string> ids = list_checkpoints(*posix_storage(text, false));
  if (ids.empty()) throw Error(ErrorKind::bad_input, text, "there is no checkpoint in it");
  out.id = ids.back();
  return out;
}

}  // namespace shardproof
