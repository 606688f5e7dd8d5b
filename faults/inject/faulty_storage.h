// faulty_storage: what may go wrong at a file operation of one rank: it fails (EIO, ENOSPC), the
// rank dies, stops or is late before or after it, or in the middle of a write, and bytes that were
// written are damaged behind the back of who wrote them. Operations of a rank are counted together,
// those of its open files too. Thread rule: as a Storage.
#pragma once

#include <memory>

#include "checkpoint/storage.h"
#include "faults/inject/injector.h"

namespace shardproof {

class FaultyStorage : public ForwardingStorage {
 public:
  FaultyStorage(std::shared_ptr<Storage> inner, std::shared_ptr<Injector> injector);

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

 private:
  std::shared_ptr<Storage> storage_;
  std::shared_ptr<Injector> injector_;
};

// Whether the path is that of a shard, which such faults damage.
bool is_shard(const std::string& path);
// Damages stored bytes: `path` is a shard. Error bad_input when swap_shards finds no other one.
void damage_shard(Storage& storage, FaultKind kind, const std::string& path);

}  // namespace shardproof
