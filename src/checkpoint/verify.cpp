// verify: see verify.h and load.h.
#include "checkpoint/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/block_digests.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

class FileCheck {
 public:
  FileCheck(Storage& storage, const Manifest& manifest, const ShardFileRef& file)
      : storage_(storage), file_(file) {
    for (const ManifestEntry& entry : manifest.entries) {
      if (entry.file == file.file) entries_.push_back(&entry);
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const auto* a, const auto* b) { return a->begin < b->begin; });
  }

  std::vector<Damage> run(bool blocks) {
    try {
      bytes_ = storage_.size(file_.file);
    } catch (const Error& error) {
      add(file_.file, fmt::format("a file of {} bytes", file_.bytes), error.what());
      return std::move(damages_);
    }
    if (bytes_ != file_.bytes) {
      add(file_.file, fmt::format("{} bytes", file_.bytes), fmt::format("{} bytes", bytes_));
    }
    check_header();
    try {
      check_head();
      if (blocks) check_blocks();
    } catch (const Error& error) {
      add(fmt::format("{}: bytes [{}, {})", file_.file, at_, bytes_), "readable bytes",
          error.what());
    }
    return std::move(damages_);
  }

 private:
  void add(std::string where, std::string expected, std::string found) {
    damages_.push_back({std::move(where), std::move(expected), std::move(found)});
  }

  void check_header() {
    SafetensorsHeader header;
    try {
      header = read_shard_header(storage_, file_.file);
    } catch (const Error& error) {
      add(file_.file + ": header", "a safetensors header", error.what());
      return;
    }
    std::map<std::string, const SafetensorsEntry*> tensors;
    for (const SafetensorsEntry& tensor : header.entries) tensors[tensor.name] = &tensor;
    for (const ManifestEntry* entry : entries_) {
      const auto found = tensors.find(entry->tensor);
      if (found == tensors.end()) {
        add(file_.file + ": header", fmt::format("a tensor '{}'", entry->tensor), "none");
        continue;
      }
      check_tensor(*entry, *found->second, header.data_begin);
      tensors.erase(found);
    }
    for (const auto& [name, tensor] : tensors) {
      add(file_.file + ": header", "only tensors of the manifest", fmt::format("'{}'", name));
    }
  }

  void check_tensor(const ManifestEntry& entry, const SafetensorsEntry& tensor,
                    std::uint64_t data_begin) {
    const auto text = [](Dtype dtype, std::uint64_t begin, std::uint64_t end) {
      return fmt::format("{} at bytes [{}, {})", name(dtype), begin, end);
    };
    const std::string expected = text(entry.dtype, entry.begin, entry.end);
    const std::string found =
        text(tensor.dtype, data_begin + tensor.begin, data_begin + tensor.end);
    if (expected != found) add(file_.file + ": header: " + entry.label(), expected, found);
  }

  void check_head() {
    constexpr std::size_t chunk = 1 << 20;
    Sha256 hash;
    for (auto bytes = next(file_.head, chunk); !bytes.empty(); bytes = next(file_.head, chunk)) {
      hash.update(bytes.data(), bytes.size());
    }
    const Digest found = hash.finish();
    digest_.add(found);
    if (found == file_.head_sha256) return;
    add(fmt::format("{}: header, bytes [0, {})", file_.file, file_.head),
        "sha256 " + file_.head_sha256.hex(), "sha256 " + found.hex());
  }

  // A manifest that was parsed has no bytes between its entries, nor behind them.
  void check_blocks() {
    for (const ManifestEntry* entry : entries_) {
      at_ = entry->begin;
      check_entry(*entry);
    }
    const Digest found = digest_.finish();
    if (found != file_.digest) {
      add(file_.file, "digest " + file_.digest.hex(), "digest " + found.hex());
    }
  }

  // The next bytes of the file, at most up to `end` and a chunk's worth.
  std::span<const std::byte> next(std::uint64_t end, std::size_t most) {
    const std::uint64_t stop = std::min(end, bytes_);
    const std::size_t count = at_ < stop ? std::min<std::uint64_t>(stop - at_, most) : 0;
    buffer_.resize(count);
    if (count > 0) storage_.read(file_.file, at_, buffer_);
    at_ += count;
    return buffer_;
  }

  void check_entry(const ManifestEntry& entry) {
    const std::size_t block_bytes = block_elements * size_of(entry.dtype);
    const auto blocks = static_cast<std::int64_t>(entry.blocks.size());
    std::int64_t bad_begin = -1;  // of the current run of damaged blocks
    Digest bad_found;
    for (std::int64_t first = 0; first < blocks; first += chunk_blocks) {
      const std::int64_t count = std::min(chunk_blocks, blocks - first);
      const BlockRun run = block_run(entry, first, count);
      const auto bytes = next(run.end, run.end - run.begin);
      const std::vector<Digest> found = block_digests(bytes, block_bytes);
      for (const Digest& digest : found) digest_.add(digest);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto index = static_cast<std::size_t>(i);
        const bool there = index < found.size();
        const bool good =
            there && found[index] == entry.blocks[static_cast<std::size_t>(first + i)];
        if (good && bad_begin >= 0)
          report(entry, std::exchange(bad_begin, -1), first + i, bad_found);
        if (!good && bad_begin < 0) {
          bad_begin = first + i;
          bad_found = there ? found[index] : Digest{};
        }
      }
    }
    if (bad_begin >= 0) report(entry, bad_begin, blocks, bad_found);
  }

  void report(const ManifestEntry& entry, std::int64_t first, std::int64_t end,
              const Digest& found) {
    const BlockRun run = block_run(entry, first, end - first);
    const std::string more =
        end - first > 1 ? fmt::format(" and {} blocks more", end - first - 1) : "";
    const BlockRun first_block = block_run(entry, first, 1);
    const std::string ends = fmt::format("the file ends at byte {}", bytes_);
    add(fmt::format("{}: {}, bytes [{}, {})", file_.file, entry.label(), run.begin, run.end),
        "sha256 " + entry.blocks[static_cast<std::size_t>(first)].hex() + more,
        first_block.begin >= bytes_ ? ends
        : first_block.end > bytes_  ? "sha256 " + found.hex() + ", " + ends
                                    : "sha256 " + found.hex());
  }

  Storage& storage_;
  const ShardFileRef& file_;
  std::vector<const ManifestEntry*> entries_;
  std::vector<Damage> damages_;
  std::vector<std::byte> buffer_;
  FileDigest digest_;
  std::uint64_t bytes_ = 0;  // that the file really has
  std::uint64_t at_ = 0;
};

void require_none(const Manifest& manifest, const std::vector<Damage>& damages) {
  if (damages.empty()) return;
  const std::string more =
      damages.size() > 1 ? fmt::format(" ({} more damages in the file)", damages.size() - 1) : "";
  throw Error(ErrorKind::corrupt, fmt::format("checkpoint {}: {}", manifest.id, damages[0].where),
              fmt::format("expected {}, found {}{}", damages[0].expected, damages[0].found, more));
}

// What both readings share; `blocks` are verified, too, or not.
Manifest read_together(Storage& storage, Communicator& comm, const std::string& id, bool blocks) {
  Manifest manifest;
  const std::vector<std::string> seals = agreed(comm, [&] {
    manifest = read_manifest(storage, id);
    return manifest.seal;
  });
  for (std::size_t rank = 0; rank < seals.size(); ++rank) {
    if (seals[rank] == seals[0]) continue;
    throw Error(ErrorKind::mismatch, "checkpoint " + id,
                fmt::format("rank 0 reads a manifest with sha256 {}, rank {} one with {}; expected "
                            "one storage for all ranks",
                            seals[0], rank, seals[rank]));
  }
  agreed(comm, [&] {
    const auto size = static_cast<std::size_t>(comm.size());
    for (auto i = static_cast<std::size_t>(comm.rank()); i < manifest.files.size(); i += size) {
      require_none(manifest, FileCheck(storage, manifest, manifest.files[i]).run(blocks));
    }
    return std::string();
  });
  return manifest;
}

}  // namespace

std::vector<Damage> verify_file(Storage& storage, const Manifest& manifest,
                                const ShardFileRef& file) {
  return FileCheck(storage, manifest, file).run(true);
}

std::vector<Damage> verify_checkpoint(Storage& storage, const std::string& id) {
  Manifest manifest;
  try {
    manifest = read_manifest(storage, id);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bad_input) throw;  // no such checkpoint is not a damaged one
    return {{error.place(), "a whole manifest", error.detail()}};
  }
  std::vector<Damage> damages;
  for (const ShardFileRef& file : manifest.files) {
    std::vector<Damage> found = verify_file(storage, manifest, file);
    damages.insert(damages.end(), std::make_move_iterator(found.begin()),
                   std::make_move_iterator(found.end()));
  }
  return damages;
}

Manifest open_checkpoint(Storage& storage, Communicator& comm, const std::string& id) {
  return read_together(storage, comm, id, false);
}

Manifest read_whole(Storage& storage, Communicator& comm, const std::string& id) {
  return read_together(storage, comm, id, true);
}

Manifest read_durable(Storage& storage, Communicator& comm, const std::string& id) {
  Manifest manifest = open_checkpoint(storage, comm, id);
  agreed(comm, [&] {
    if (comm.rank() == 0) storage.sync_directory("");
    return std::string();
  });
  return manifest;
}

}  // namespace shardproof
