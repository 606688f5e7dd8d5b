// memory_storage: files in memory with the semantics of the file system: a file needs its
// directory, link() gives the same file a second name, a removed file lives on while it is open.
// Everything is at once "durable": what a crash takes away is modelled by a decorator.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/storage.h"

namespace shardproof {
namespace {

struct Content {
  std::mutex mutex;
  std::vector<std::byte> bytes;
};

class MemoryFile : public File {
 public:
  explicit MemoryFile(std::shared_ptr<Content> content) : content_(std::move(content)) {}
  void write(std::span<const std::byte> bytes) override {
    SP_CHECK(open_, "write to a closed file");
    const std::scoped_lock lock(content_->mutex);
    content_->bytes.insert(content_->bytes.end(), bytes.begin(), bytes.end());
  }
  void sync() override { SP_CHECK(open_, "sync of a closed file"); }
  void close() override { open_ = false; }

 private:
  std::shared_ptr<Content> content_;
  bool open_ = true;
};

class MemoryStorage : public Storage {
 public:
  std::unique_ptr<File> create(const std::string& path) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    require_parent("create", path);
    if (taken(path)) throw Error(ErrorKind::conflict, "create " + path, "it exists already");
    auto content = std::make_shared<Content>();
    files_[path] = content;
    return std::make_unique<MemoryFile>(std::move(content));
  }

  void make_directory(const std::string& path) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    require_parent("make directory", path);
    if (files_.contains(path)) fail("make directory", path, "File exists");
    directories_.insert(path);
  }

  void sync_directory(const std::string& path) override {
    check_storage_path(path, true);
    const std::scoped_lock lock(mutex_);
    require_directory("sync directory", path, path);
  }

  void link(const std::string& from, const std::string& to) override {
    check_storage_path(from);
    check_storage_path(to);
    const std::scoped_lock lock(mutex_);
    const auto content = find("link", from);
    require_parent("link", to);
    if (taken(to)) throw Error(ErrorKind::conflict, "link " + to, "it exists already");
    files_[to] = content;
  }

  void remove(const std::string& path) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    if (directories_.contains(path)) fail("remove", path, "Is a directory");
    files_.erase(path);
  }

  void remove_directory(const std::string& path) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    if (files_.contains(path)) fail("remove directory", path, "Not a directory");
    if (!children(path).empty()) fail("remove directory", path, "Directory not empty");
    directories_.erase(path);
  }

  bool exists(const std::string& path) override {
    check_storage_path(path, true);
    const std::scoped_lock lock(mutex_);
    return path.empty() || taken(path);
  }

  std::uint64_t size(const std::string& path) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    const auto content = find("size", path);
    const std::scoped_lock content_lock(content->mutex);
    return content->bytes.size();
  }

  std::vector<std::string> list(const std::string& path) override {
    check_storage_path(path, true);
    const std::scoped_lock lock(mutex_);
    require_directory("list", path, path);
    const auto names = children(path);
    return {names.begin(), names.end()};
  }

  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    check_storage_path(path);
    const std::scoped_lock lock(mutex_);
    const auto content = find("read", path);
    const std::scoped_lock content_lock(content->mutex);
    const std::uint64_t bytes = content->bytes.size();
    if (offset > bytes || out.size() > bytes - offset) {
      throw Error(ErrorKind::corrupt, "read " + path,
                  fmt::format("the file ends at byte {}; expected {} bytes from byte {}", bytes,
                              out.size(), offset));
    }
    if (!out.empty()) std::memcpy(out.data(), content->bytes.data() + offset, out.size());
  }

 private:
  [[noreturn]] static void fail(const char* operation, const std::string& path,
                                const char* reason) {
    throw Error(ErrorKind::io, fmt::format("{} {}", operation, path), reason);
  }
  bool taken(const std::string& path) const {
    return files_.contains(path) || directories_.contains(path);
  }
  // `path` must be a directory; `named` is what the message is about.
  void require_directory(const char* operation, const std::string& path,
                         const std::string& named) const {
    if (files_.contains(path)) fail(operation, named, "Not a directory");
    if (!path.empty() && !directories_.contains(path)) {
      fail(operation, named, "No such file or directory");
    }
  }
  void require_parent(const char* operation, const std::string& path) const {
    const std::size_t slash = path.rfind('/');
    if (slash != std::string::npos) require_directory(operation, path.substr(0, slash), path);
  }
  std::shared_ptr<Content> find(const char* operation, const std::string& path) const {
    if (directories_.contains(path)) fail(operation, path, "Is a directory");
    const auto found = files_.find(path);
    if (found == files_.end()) fail(operation, path, "No such file or directory");
    return found->second;
  }
  std::set<std::string> children(const std::string& path) const {
    const std::string prefix = path.empty() ? "" : path + "/";
    std::set<std::string> names;
    const auto add = [&](const std::string& candidate) {
      if (!candidate.starts_with(prefix)) return;
      const std::string rest = candidate.substr(prefix.size());
      if (!rest.empty() && rest.find('/') == std::string::npos) names.insert(rest);
    };
    for (const auto& [name, content] : files_) add(name);
    for (const auto& name : directories_) add(name);
    return names;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Content>> files_;
  std::set<std::string> directories_;
};

}  // namespace

std::unique_ptr<Storage> memory_storage() {
  return std::make_unique<MemoryStorage>();
}

}  // namespace shardproof
