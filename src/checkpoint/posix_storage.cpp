// posix_storage: a directory of the file system. Every path is walked from the root's descriptor
// one component at a time without following symlinks, so a link planted below the root leads
// nowhere. Files are opened non-blocking and must be regular: a FIFO under a shard's name cannot
// hang a reader. Not checked: mount points below the root.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include <dirent.h>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/storage.h"

namespace shardproof {
namespace {

[[noreturn]] void fail(const char* operation, const std::string& path, int error) {
  throw Error(ErrorKind::io, fmt::format("{} {}", operation, path),
              std::generic_category().message(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

template <typename Function>
auto retry_interrupted(const Function& function) {
  auto result = function();
  while (result == -1 && errno == EINTR) result = function();
  return result;
}

// openat for what is there already; interrupted (a file system over a network or in a process may
// wait here), it is repeated.
Descriptor open_at(int at, const char* name, int flags) {
  return Descriptor(retry_interrupted([&] { return ::openat(at, name, flags | O_CLOEXEC); }));
}

class PosixFile : public File {
 public:
  PosixFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  void write(std::span<const std::byte> bytes) override {
    SP_CHECK(fd_.get() >= 0, "write to a closed file");
    while (!bytes.empty()) {
      const ssize_t n =
          retry_interrupted([&] { return ::write(fd_.get(), bytes.data(), bytes.size()); });
      if (n < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      size_ += n;
    }
    write_behind();
  }
  void sync() override {
    SP_CHECK(fd_.get() >= 0, "sync of a closed file");
    if (retry_interrupted([&] { return ::fsync(fd_.get()); }) != 0) fail("fsync", path_, errno);
  }
  void close() override {
    if (fd_.get() < 0) return;
    // The descriptor is gone whatever close says: an interrupted close must not be repeated.
    if (::close(fd_.release()) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  // Has the disk begin with what came in, so that it works while the next bytes are hashed, and
  // sync() finds little left. This promises nothing: a failure comes back from fsync.
  void write_behind() {
    constexpr off_t window = 8 << 20;
    if (size_ - begun_ < window) return;
    ::sync_file_range(fd_.get(), begun_, size_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = size_;
  }

  Descriptor fd_;
  std::string path_;
  off_t size_ = 0;
  off_t begun_ = 0;  // the disk was asked to write what is before it
};

class PosixStorage : public Storage {
 public:
  PosixStorage(std::string root, Descriptor fd) : root_(std::move(root)), fd_(std::move(fd)) {}

  std::unique_ptr<File> create(const std::string& path) override {
    const Parent parent = open_parent("create", path);
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor fd(
        retry_interrupted([&] { return ::openat(parent.fd(), parent.name.c_str(), flags, 0666); }));
    if (fd.get() < 0 && errno == EEXIST) {
      throw Error(ErrorKind::conflict, "create " + full(path), "it exists already");
    }
    if (fd.get() < 0) fail("create", full(path), errno);
    return std::make_unique<PosixFile>(std::move(fd), full(path));
  }

  void make_directory(const std::string& path) override {
    const Parent parent = open_parent("make directory", path);
    if (::mkdirat(parent.fd(), parent.name.c_str(), 0777) == 0) return;
    if (errno != EEXIST) fail("make directory", full(path), errno);
    open_below("make directory", parent.fd(), parent.name, path);
  }

  void sync_directory(const std::string& path) override {
    const Descriptor directory = open_directory("sync directory", path);
    const Descriptor readable = open_at(directory.get(), ".", O_RDONLY | O_DIRECTORY);
    if (readable.get() < 0) fail("sync directory", full(path), errno);
    if (retry_interrupted([&] { return ::fsync(readable.get()); }) != 0) {
      fail("sync directory", full(path), errno);
    }
  }

  void link(const std::string& from, const std::string& to) override {
    const Parent source = open_parent("link", from);
    const Parent target = open_parent("link", to);
    if (::linkat(source.fd(), source.name.c_str(), target.fd(), target.name.c_str(), 0) == 0) {
      return;
    }
    const int error = errno;
    if (error == EEXIST) {
      throw Error(ErrorKind::conflict, "link " + full(to), "it exists already");
    }
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
      throw Error(ErrorKind::environment, "link " + full(to),
                  fmt::format("{}; checkpoints need a file system with hard links",
                              std::generic_category().message(error)));
    }
    fail("link", full(to), error);
  }

  void remove(const std::string& path) override { unlink("remove", path, 0); }
  void remove_directory(const std::string& path) override {
    unlink("remove directory", path, AT_REMOVEDIR);
  }

  bool exists(const std::string& path) override {
    check_storage_path(path, true);
    if (path.empty()) return true;
    struct stat status {};
    try {
      const Parent parent = open_parent("exists", path);
      if (::fstatat(parent.fd(), parent.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
      }
      if (errno == ENOENT || errno == ENOTDIR) return false;
      fail("exists", full(path), errno);
    } catch (const MissingParent&) {
      return false;
    }
  }

  std::uint64_t size(const std::string& path) override {
    std::uint64_t bytes = 0;
    open_file("size", path, bytes);
    return bytes;
  }

  std::vector<std::string> list(const std::string& path) override {
    const Descriptor directory = open_directory("list", path);
    Descriptor readable = open_at(directory.get(), ".", O_RDONLY | O_DIRECTORY);
    if (readable.get() < 0) fail("list", full(path), errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(readable.get()), ::closedir);
    if (!stream) fail("list", full(path), errno);
    readable.release();  // the stream closes it
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    if (errno != 0) fail("list", full(path), errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    std::uint64_t bytes = 0;
    const Descriptor fd = open_file("read", path, bytes);
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = retry_interrupted([&] {
        return ::pread(fd.get(), out.data() + done, out.size() - done,
                       static_cast<off_t>(offset + done));
      });
      if (n < 0) fail("read", full(path), errno);
      if (n == 0) {
        throw Error(ErrorKind::corrupt, "read " + full(path),
                    fmt::format("the file ends at byte {}; expected {} bytes from byte {}", bytes,
                                out.size(), offset));
      }
      done += static_cast<std::size_t>(n);
    }
  }

 private:
  // A directory on the way to a path does not exist: for exists() a plain no.
  class MissingParent : public Error {
   public:
    using Error::Error;
  };
  struct Parent {
    Descriptor owned;  // unset: the root itself
    int root = -1;
    std::string name;
    int fd() const { return owned.get() >= 0 ? owned.get() : root; }
  };

  std::string full(const std::string& path) const {
    return path.empty() ? root_ : root_ + "/" + path;
  }

  // Opens a directory that lies directly in `at`; `path` is for messages.
  Descriptor open_below(const char* operation, int at, const std::string& name,
                        const std::string& path) const {
    Descriptor fd = open_at(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (fd.get() >= 0) return fd;
    const int error = errno;
    refuse_symlink(operation, at, name, path);
    if (error == ENOENT || error == ENOTDIR) {
      throw MissingParent(ErrorKind::io, fmt::format("{} {}", operation, full(path)),
                          std::generic_category().message(error));
    }
    fail(operation, full(path), error);
  }

  void refuse_symlink(const char* operation, int at, const std::string& name,
                      const std::string& path) const {
    struct stat status {};
    if (::fstatat(at, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode)) {
      throw Error(ErrorKind::refused, fmt::format("{} {}", operation, full(path)),
                  fmt::format("'{}' is a symbolic link; expected none below the root", name));
    }
  }

  Parent open_parent(const char* operation, const std::string& path) const {
    check_storage_path(path);
    Parent parent;
    parent.root = fd_.get();
    std::size_t begin = 0;
    for (std::size_t slash; (slash = path.find('/', begin)) != std::string::npos;
         begin = slash + 1) {
      parent.owned = open_below(operation, parent.fd(), path.substr(begin, slash - begin), path);
    }
    parent.name = path.substr(begin);
    return parent;
  }

  Descriptor open_directory(const char* operation, const std::string& path) const {
    check_storage_path(path, true);
    if (path.empty()) {
      Descriptor fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
      if (fd.get() < 0) fail(operation, full(path), errno);
      return fd;
    }
    const Parent parent = open_parent(operation, path);
    return open_below(operation, parent.fd(), parent.name, path);
  }

  Descriptor open_file(const char* operation, const std::string& path, std::uint64_t& bytes) const {
    const Parent parent = open_parent(operation, path);
    Descriptor fd = open_at(parent.fd(), parent.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd.get() < 0) {
      const int error = errno;
      refuse_symlink(operation, parent.fd(), parent.name, path);
      fail(operation, full(path), error);
    }
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) fail(operation, full(path), errno);
    if (S_ISDIR(status.st_mode)) fail(operation, full(path), EISDIR);
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorKind::refused, fmt::format("{} {}", operation, full(path)),
                  "is not a regular file");
    }
    bytes = static_cast<std::uint64_t>(status.st_size);
    return fd;
  }

  void unlink(const char* operation, const std::string& path, int flags) const {
    try {
      const Parent parent = open_parent(operation, path);
      if (::unlinkat(parent.fd(), parent.name.c_str(), flags) != 0 && errno != ENOENT) {
        fail(operation, full(path), errno);
      }
    } catch (const MissingParent&) {  // then the path is missing, too, which is fine
    }
  }

  std::string root_;
  Descriptor fd_;
};

// A root that a crash takes away takes all checkpoints with it. One that was there may be that of a
// process which was killed before this; its parent need not be readable.
void sync_name(const Descriptor& root_fd, const std::string& root, bool made) {
  const Descriptor parent = open_at(root_fd.get(), "..", O_RDONLY | O_DIRECTORY);
  const bool synced =
      parent.get() >= 0 && retry_interrupted([&] { return ::fsync(parent.get()); }) == 0;
  if (!synced && made) fail("sync directory", root + "/..", errno);
}

}  // namespace

std::unique_ptr<Storage> posix_storage(const std::string& root, bool create_root) {
  const bool made = create_root && ::mkdir(root.c_str(), 0777) == 0;
  if (create_root && !made && errno != EEXIST) fail("make directory", root, errno);
  Descriptor fd = open_at(AT_FDCWD, root.c_str(), O_PATH | O_DIRECTORY);
  if (fd.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    throw Error(ErrorKind::bad_input, root,
                fmt::format("{}; expected a directory of checkpoints",
                            std::generic_category().message(errno)));
  }
  if (fd.get() < 0) fail("open directory", root, errno);
  if (create_root) sync_name(fd, root, made);
  return std::make_unique<PosixStorage>(root, std::move(fd));
}

}  // namespace shardproof
