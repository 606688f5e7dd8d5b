// storage: the file operations checkpoints rely on, and no others, so that a fault or a crash model
// wraps a handful of functions. Paths are relative to the storage's root, '/'-separated; "..", an
// absolute path or an empty component is Error refused before anything is touched. The root may be
// a symlink; below it none is followed (Error refused), so nothing outside is read or written.
// Errors: Error io naming "<operation> <path>" and the system's reason; nothing is retried but
// EINTR and short transfers. Thread rule: safe from several threads; one File from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardproof {

class File {
 public:
  virtual ~File() = default;  // closes; an unsynced file may be lost by a crash
  virtual void write(std::span<const std::byte> bytes) = 0;  // appends all of it
  virtual void sync() = 0;                                   // fsync
  virtual void close() = 0;                                  // reports what the destructor cannot
};

class Storage {
 public:
  virtual ~Storage() = default;
  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // Error conflict if it exists
  virtual void make_directory(const std::string& path) = 0;           // existing is fine; one level
  virtual void sync_directory(const std::string& path) = 0;           // "" is the root
  // link(2): never overwrites. Error conflict if `to` exists; environment where there are no links.
  virtual void link(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;            // a file; missing is fine
  virtual void remove_directory(const std::string& path) = 0;  // empty; missing is fine
  virtual bool exists(const std::string& path) = 0;
  virtual std::uint64_t size(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted
  // Exactly out.size() bytes from `offset`; Error corrupt when the file is shorter.
  virtual void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) = 0;
};

// Error refused unless `path` is what is said above; "" (the root) only where `root_is_fine`.
void check_storage_path(const std::string& path, bool root_is_fine = false);

// The whole file; Error corrupt, before it is read, when it is longer than max_bytes.
std::string read_text(Storage& storage, const std::string& path, std::uint64_t max_bytes);

// A directory of the file system. A missing root is made and synced (one level), or bad_input.
std::unique_ptr<Storage> posix_storage(const std::string& root, bool create_root);
// Files in memory: for tests and models. Files survive for the life of the object.
std::unique_ptr<Storage> memory_storage();

// The base of decorators (faults, delay, the crash model).
class ForwardingStorage : public Storage {
 public:
  explicit ForwardingStorage(std::shared_ptr<Storage> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<File> create(const std::string& path) override;
  void make_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void link(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::uint64_t size(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override;

 protected:
  Storage& inner() { return *inner_; }

 private:
  std::shared_ptr<Storage> inner_;
};

}  // namespace shardproof
