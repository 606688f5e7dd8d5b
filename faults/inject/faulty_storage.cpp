// faulty_storage: every operation goes through one function.
#include "faults/inject/faulty_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "faults/inject/impossible_fault.h"

namespace shardproof {
namespace {

std::vector<std::byte> whole(Storage& storage, const std::string& path) {
  std::vector<std::byte> bytes(storage.size(path));
  storage.read(path, 0, bytes);
  return bytes;
}

void put(Storage& storage, const std::string& path, std::span<const std::byte> bytes) {
  storage.remove(path);
  const auto file = storage.create(path);
  file->write(bytes);
  file->close();
}

std::string other_shard(Storage& storage, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "" : path.substr(0, slash);
  for (const std::string& name : storage.list(folder)) {
    const std::string other = folder.empty() ? name : folder + "/" + name;
    if (other != path && is_shard(other)) return other;
  }
  throw impossible_fault(path, "swap_shards: there is no other shard");
}

bool is_file_kind(FaultKind kind) {
  return fails_operation(kind) || damages_shard(kind);
}

// One operation: its number, what fails it, and what follows it. `torn` does half of it.
class Operation {
 public:
  Operation(Injector& injector, Storage& storage, std::string what, std::string path)
      : injector_(injector),
        storage_(storage),
        what_(std::move(what)),
        path_(std::move(path)),
        before_(injector.next_operation(what_)) {}

  template <typename Body>
  auto run(const Body& body) {
    before();
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      after();
    } else {
      auto result = body();
      after();
      return result;
    }
  }

  bool torn() const { return injector_.expects(at_moment(before_, Moment::torn), is_file_kind); }
  void tear() { injector_.pass(at_moment(before_, Moment::torn), is_file_kind); }

  void before() {
    if (injector_.discovers()) {
      PassedPoint passed{
          before_.point, what_ + " " + path_, {FaultKind::disk_full, FaultKind::io_error}};
      if (leaves_shards()) {
        for (const FaultKind kind :
             {FaultKind::corrupt_shard, FaultKind::truncate_shard, FaultKind::missing_shard}) {
          passed.kinds.push_back(kind);
        }
        if (what_ == "link") passed.kinds.push_back(FaultKind::swap_shards);
      }
      injector_.discovered(passed);
    }
    for (const Fault& fault : injector_.pass(before_, is_file_kind)) {
      throw Error(
          ErrorKind::io, what_ + " " + path_,
          fault.kind == FaultKind::disk_full ? "No space left on device" : "Input/output error",
          injector_.rank());
    }
  }

  // Where no shard is whole there is nothing to damage: such a fault does not fire.
  void after() {
    bool (*const wanted)(FaultKind) =
        leaves_shards() ? &damages_shard : +[](FaultKind) { return false; };
    for (const Fault& fault : injector_.pass(at_moment(before_, Moment::after), wanted)) {
      damage_shard(storage_, fault.kind, is_shard(path_) ? path_ : published_shard());
    }
  }

 private:
  // Behind a link all shards of the checkpoint are whole, behind a close that one.
  bool leaves_shards() const {
    return (what_ == "close" && is_shard(path_)) || (what_ == "link" && !is_shard(path_));
  }

  // The first shard of the checkpoint whose manifest was just linked.
  std::string published_shard() const {
    const std::string id = path_.substr(0, path_.find(".manifest"));
    for (const std::string& name : storage_.list("")) {
      if (!name.starts_with(id + ".shards-")) continue;
      for (const std::string& shard : storage_.list(name)) {
        if (is_shard(shard)) return name + "/" + shard;
      }
    }
    throw impossible_fault(path_, "the checkpoint has no shard");
  }

  Injector& injector_;
  Storage& storage_;
  const std::string what_, path_;
  const Passing before_;
};

class FaultyFile : public File {
 public:
  FaultyFile(std::unique_ptr<File> inner, std::shared_ptr<Storage> storage,
             std::shared_ptr<Injector> injector, std::string path)
      : inner_(std::move(inner)),
        storage_(std::move(storage)),
        injector_(std::move(injector)),
        path_(std::move(path)) {}

  void write(std::span<const std::byte> bytes) override {
    Operation operation(*injector_, *storage_, "write", path_);
    operation.before();
    if (operation.torn()) {
      const std::size_t half = bytes.size() / 2;
      inner_->write(bytes.first(half));
      operation.tear();
      bytes = bytes.subspan(half);
    }
    inner_->write(bytes);
    operation.after();
  }
  void sync() override {
    Operation(*injector_, *storage_, "sync", path_).run([&] { inner_->sync(); });
  }
  void close() override {
    Operation(*injector_, *storage_, "close", path_).run([&] { inner_->close(); });
  }

 private:
  std::unique_ptr<File> inner_;
  std::shared_ptr<Storage> storage_;
  std::shared_ptr<Injector> injector_;
  const std::string path_;
};

}  // namespace

bool is_shard(const std::string& path) {
  return path.ends_with(".safetensors");
}

void damage_shard(Storage& storage, FaultKind kind, const std::string& path) {
  if (kind == FaultKind::missing_shard) return storage.remove(path);
  std::vector<std::byte> bytes = whole(storage, path);
  if (kind == FaultKind::truncate_shard) {
    bytes.resize(bytes.size() / 2);
  } else if (kind == FaultKind::swap_shards) {
    const std::string other = other_shard(storage, path);
    const std::vector<std::byte> others = whole(storage, other);
    put(storage, other, bytes);
    bytes = others;
  } else if (!bytes.empty()) {
    bytes[bytes.size() / 2] ^= std::byte{1};
  }
  put(storage, path, bytes);
}

FaultyStorage::FaultyStorage(std::shared_ptr<Storage> inner_storage,
                             std::shared_ptr<Injector> injector)
    : ForwardingStorage(inner_storage),
      storage_(std::move(inner_storage)),
      injector_(std::move(injector)) {}

std::unique_ptr<File> FaultyStorage::create(const std::string& path) {
  auto file =
      Operation(*injector_, *storage_, "create", path).run([&] { return inner().create(path); });
  return std::make_unique<FaultyFile>(std::move(file), storage_, injector_, path);
}

void FaultyStorage::make_directory(const std::string& path) {
  Operation(*injector_, *storage_, "mkdir", path).run([&] { inner().make_directory(path); });
}

void FaultyStorage::sync_directory(const std::string& path) {
  Operation(*injector_, *storage_, "sync_directory", path).run([&] {
    inner().sync_directory(path);
  });
}

void FaultyStorage::link(const std::string& from, const std::string& to) {
  Operation(*injector_, *storage_, "link", to).run([&] { inner().link(from, to); });
}

void FaultyStorage::remove(const std::string& path) {
  Operation(*injector_, *storage_, "remove", path).run([&] { inner().remove(path); });
}

void FaultyStorage::remove_directory(const std::string& path) {
  Operation(*injector_, *storage_, "rmdir", path).run([&] { inner().remove_directory(path); });
}

bool FaultyStorage::exists(const std::string& path) {
  return Operation(*injector_, *storage_, "exists", path).run([&] { return inner().exists(path); });
}

std::uint64_t FaultyStorage::size(const std::string& path) {
  return Operation(*injector_, *storage_, "size", path).run([&] { return inner().size(path); });
}

std::vector<std::string> FaultyStorage::list(const std::string& path) {
  return Operation(*injector_, *storage_, "list", path).run([&] { return inner().list(path); });
}

void FaultyStorage::read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) {
  Operation(*injector_, *storage_, "read", path).run([&] { inner().read(path, offset, out); });
}

}  // namespace shardproof
