// output_path: the system's error number says whose mistake it is.
#include "harness/output_path.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& what, int code) {
  const bool misnamed = code == ENOTDIR || code == EISDIR || code == EEXIST ||
                        code == ENAMETOOLONG || code == ELOOP || code == EINVAL;
  throw Error(misnamed ? ErrorKind::bad_input : ErrorKind::environment, path,
              what + ": " + std::generic_category().message(code));
}

[[noreturn]] void refuse_existing(const std::string& path) {
  throw Error(ErrorKind::conflict, path,
              "exists already; a run never writes into what it did not make");
}

// Not followed: a link that leads nowhere is there, too.
bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

void make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(without_slash(path), code);
  if (code) refuse(path, "the folder cannot be made", code.value());
  if (!fs::is_directory(path, code)) refuse(path, "expected a folder", ENOTDIR);
}

void make_fresh_folder(const std::string& asked) {
  const std::string path = without_slash(asked);
  if (exists(path)) refuse_existing(path);
  const fs::path parent = fs::path(path).parent_path();
  std::error_code code;
  if (!parent.empty()) fs::create_directories(parent, code);
  if (code) refuse(path, "the folder cannot be made", code.value());
  if (::mkdir(path.c_str(), 0777) == 0) return;
  if (errno == EEXIST) refuse_existing(path);  // another run was faster
  refuse(path, "the folder cannot be made", errno);
}

std::string make_numbered_folder(const std::string& stem) {
  for (int n = 1;; ++n) {
    std::string path = stem + "-" + std::to_string(n);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) refuse(path, "the folder cannot be made", errno);
  }
}

void check_new_file(const std::string& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (fs::is_directory(status)) refuse(path, "expected a file", EISDIR);
  if (fs::is_regular_file(status)) refuse_existing(path);
  if (fs::exists(status)) return;  // a pipe, a device
  if (exists(path)) refuse_existing(path);
  if (code && code.value() != ENOENT) refuse(path, "cannot be written", code.value());
  const fs::path parent = fs::path(path).parent_path();
  if (parent.empty() || fs::is_directory(parent, code)) return;
  throw Error(ErrorKind::bad_input, path, "there is no folder " + parent.string());
}

}  // namespace shardproof
