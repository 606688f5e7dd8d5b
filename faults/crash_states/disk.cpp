// disk: see disk.h.
#include "faults/crash_states/disk.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace shardproof::crash {
namespace {

class MountedDisk : public Storage {
 public:
  explicit MountedDisk(const Disk& disk) : disk_(disk) {}

  std::unique_ptr<File> create(const std::string& path) override { refuse("create", path); }
  void make_directory(const std::string& path) override { refuse("make directory", path); }
  void sync_directory(const std::string& path) override { refuse("sync directory", path); }
  void link(const std::string&, const std::string& to) override { refuse("link", to); }
  void remove(const std::string& path) override { refuse("remove", path); }
  void remove_directory(const std::string& path) override { refuse("remove directory", path); }

  bool exists(const std::string& path) override {
    check_storage_path(path, true);
    return path.empty() || disk_.contains(path);
  }
  std::uint64_t size(const std::string& path) override { return file("size", path).size(); }

  std::vector<std::string> list(const std::string& path) override {
    check_storage_path(path, true);
    if (!path.empty() && !disk_.contains(path)) fail("list", path, "No such file or directory");
    const std::string prefix = path.empty() ? "" : path + "/";
    std::vector<std::string> names;
    for (auto at = disk_.lower_bound(prefix); at != disk_.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      const std::string rest = at->first.substr(prefix.size());
      if (rest.find('/') == std::string::npos) names.push_back(rest);
    }
    return names;
  }

  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    const auto& bytes = file("read", path);
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      throw Error(ErrorKind::corrupt, "read " + path,
                  fmt::format("the file ends at byte {}; expected {} bytes from byte {}",
                              bytes.size(), out.size(), offset));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
  }

 private:
  [[noreturn]] static void fail(const char* operation, const std::string& path, const char* why) {
    throw Error(ErrorKind::io, fmt::format("{} {}", operation, path), why);
  }
  [[noreturn]] static void refuse(const char* operation, const std::string& path) {
    fail(operation, path, "Read-only file system");
  }
  const std::vector<std::byte>& file(const char* operation, const std::string& path) const {
    check_storage_path(path);
    const auto found = disk_.find(path);
    if (found == disk_.end()) fail(operation, path, "No such file or directory");
    if (!found->second.bytes) fail(operation, path, "Is a directory");
    return *found->second.bytes;
  }

  const Disk& disk_;
};

}  // namespace

std::unique_ptr<Storage> mount(const Disk& disk) {
  return std::make_unique<MountedDisk>(disk);
}

void copy(const Disk& disk, Storage& storage) {
  for (const auto& [path, content] : disk) {
    if (!content.bytes) {
      storage.make_directory(path);
      continue;
    }
    const auto file = storage.create(path);
    file->write(*content.bytes);
    file->close();
  }
}

}  // namespace shardproof::crash
