// offload_file: a file of fp32 values for one rank, in runs of blocks of 1,024 elements, for state
// that does not stay in memory.
// Guarantees: what was written is read back, or an Error says so, with the file, the operation and
// the rank: io for what the system reports (also after a short transfer), corrupt where the file is
// shorter or longer than it was left, or a block's bytes are not those that were written (two sums
// a block are kept in memory: 16 bytes for 4 KiB). The file loses its name as soon as it is open:
// nothing is left behind, however the process ends after that, and nobody opens it by mistake.
// Every byte is written when a run is reserved, so a disk that is too small is found before the
// first step. Not durable: nothing is ever synced; a checkpoint is what survives.
// Waits: a read or write that never returns (a dead network file system) is not bounded here; other
// ranks name this one at their deadline. Torch-free. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/piece.h"

namespace shardproof {

// The calls of the system, with its return values and errno; tests make them fail.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int create(char* path);  // a new file; fills in the last six letters (mkostemp)
  virtual ssize_t read(int fd, void* to, std::size_t bytes, off_t at);
  virtual ssize_t write(int fd, const void* from, std::size_t bytes, off_t at);
  virtual off_t size(int fd);  // -1: failed
};

class OffloadFile {
 public:
  // In an existing folder. `rank` is the world rank, for messages. Error bad_input when there is no
  // such folder, io when no file can be made in it.
  OffloadFile(const std::string& directory, int rank,
              std::unique_ptr<FileCalls> calls = std::make_unique<FileCalls>());
  ~OffloadFile();
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  // A run of zeros; its first block.
  std::int64_t reserve(std::int64_t elements);
  // Whole blocks from `block` on; the last may be the short one that ends a run.
  void read(std::int64_t block, std::span<float> to);
  void write(std::int64_t block, std::span<const float> from);

  const std::string& name() const { return name_; }  // that it had

 private:
  struct Sums {
    std::uint64_t words = 0, prefixes = 0;
    bool operator==(const Sums&) const = default;
  };
  static Sums sums_of(std::span<const float> block);

  void check_size(const char* operation);
  void write_bytes(std::span<const std::byte> bytes, std::int64_t at);
  void read_bytes(std::span<std::byte> bytes, std::int64_t at);

  const std::unique_ptr<FileCalls> calls_;
  const int rank_;
  std::string name_;
  int fd_ = -1;
  std::int64_t end_ = 0;    // bytes
  std::vector<Sums> sums_;  // by block
};

}  // namespace shardproof
