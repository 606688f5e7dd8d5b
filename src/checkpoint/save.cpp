// save: see save.h. Four agreed steps: begin (rank 0 looks for the id and makes the directory),
// write (every rank its shard), publish (rank 0 commits), and, after a failure, rank 0 clears away.
// Leftovers of a crash stay: no reader looks for their names.
#include "checkpoint/save.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/gathered_shard.h"
#include "checkpoint/load.h"
#include "checkpoint/manifest_json.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/verify.h"

namespace shardproof {
namespace {

// Tells apart two attempts at one id, on one machine or on several, in one process or in two. A
// clash would still overwrite nothing: files are created exclusively.
std::string fresh_nonce(const std::string& id) {
  std::random_device random;
  const auto clock = std::chrono::system_clock::now().time_since_epoch().count();
  return sha256(fmt::format("{} {} {} {:x} {:x} {:x} {:x}", id, ::getpid(), clock, random(),
                            random(), random(), random()))
      .hex()
      .substr(0, 16);
}

double thread_cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// A line of JSON, the file and its entries, and behind it the block digests of all of them, as
// bytes: as text they would be most of what rank 0 has to parse while the others wait.
std::string text_of(WrittenShard shard, bool empty) {
  Json json{{"file", empty ? Json() : to_json(shard.file)}, {"entries", Json::array()}};
  std::string digests;
  for (ManifestEntry& entry : shard.entries) {
    for (const Digest& block : std::exchange(entry.blocks, {})) {
      digests.append(reinterpret_cast<const char*>(block.bytes.data()), block.bytes.size());
    }
    json["entries"].push_back(to_json(entry));
  }
  return json.dump() + "\n" + digests;
}

bool holds_nothing(std::span<const SaveItem> items) {
  return std::all_of(items.begin(), items.end(),
                     [](const SaveItem& item) { return item.range.size() == 0; });
}

// Files and entries of a text a rank, as a manifest has them.
void assemble(Manifest& manifest, const std::vector<std::string>& shards, const std::string& what) {
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const std::string place = fmt::format("{}: rank {}", what, rank);
    const std::size_t line = shards[rank].find('\n');
    const Json json = parse_json(shards[rank].substr(0, line), place);
    if (!json.at("file").is_null()) {
      manifest.files.push_back(file_from_json(json.at("file"), place));
    }
    std::string_view digests = std::string_view(shards[rank]).substr(line + 1);
    for (const Json& json_entry : json.at("entries")) {
      ManifestEntry& entry = manifest.entries.emplace_back(entry_from_json(json_entry, place));
      entry.blocks.resize(
          static_cast<std::size_t>((entry.range.size() + block_elements - 1) / block_elements));
      for (Digest& block : entry.blocks) {
        digests.copy(reinterpret_cast<char*>(block.bytes.data()), block.bytes.size());
        digests.remove_prefix(block.bytes.size());
      }
    }
  }
  std::sort(manifest.entries.begin(), manifest.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.name, a.what, a.piece, a.range.lo) <
           std::tie(b.name, b.what, b.piece, b.range.lo);
  });
  if (manifest.entries.empty()) {
    throw Error(ErrorKind::bad_input, what, "no rank has anything to save");
  }
  try {
    check_entries(manifest.entries, what);
  } catch (const Error& error) {
    throw Error(ErrorKind::mismatch, error.place(),
                "what the ranks hold makes no whole state: " + error.detail());
  }
}

class Save {
 public:
  Save(Storage& storage, Communicator& comm, const std::string& id, const CheckpointFacts& facts,
       SaveAs as)
      : storage_(storage), comm_(comm), id_(id), facts_(facts), as_(as) {}

  SaveReport run(std::span<const SaveItem> mine) {
    begin();
    if (!nonce_.empty()) return write(mine);
    // The id is there already: compute what would be written, and compare.
    read_whole(storage_, comm_, id_);
    return publish(shard_texts(nullptr, mine));
  }

 private:
  bool root() const { return comm_.rank() == 0; }
  std::string directory() const { return fmt::format("{}.shards-{}", id_, nonce_); }
  std::string draft() const { return fmt::format("{}.manifest-{}.tmp", id_, nonce_); }

  // A step of rank 0; its result or its failure reaches all ranks.
  std::string on_root(const std::function<std::string()>& step) {
    return agreed(comm_, [&] { return root() ? step() : std::string(); }).front();
  }

  // All ranks name the same id; rank 0 makes the directory, unless the id is committed already.
  void begin() {
    const auto ids = agreed(comm_, [&] {
      check_checkpoint_id(id_);
      return id_;
    });
    for (const std::string& other : ids) {
      if (other != ids.front()) {
        throw Error(ErrorKind::mismatch, "save of checkpoint " + id_,
                    fmt::format("ranks save '{}' and '{}' at once", ids.front(), other));
      }
    }
    nonce_ = on_root([&]() -> std::string {
      if (storage_.exists(manifest_path(id_))) return "";
      nonce_ = fresh_nonce(id_);
      if (as_ != SaveAs::seeds) storage_.make_directory(directory());
      return nonce_;
    });
  }

  SaveReport write(std::span<const SaveItem> mine) {
    try {
      const SaveReport report = publish(shard_texts(&storage_, mine));
      if (root() && !report.written) clear_away();
      return report;
    } catch (const AgreedError&) {
      if (root()) clear_away();
      throw;
    }
  }

  std::string shard_path() const {
    return fmt::format("{}/rank_{:05}.safetensors", directory(), comm_.rank());
  }
  std::map<std::string, std::string> metadata() const {
    return {{"format", "shardproof"}, {"checkpoint", id_}, {"rank", std::to_string(comm_.rank())}};
  }

  // One text a rank (text_of). A rank that holds nothing writes no file.
  std::vector<std::string> shard_texts(Storage* storage, std::span<const SaveItem> mine) {
    if (as_ == SaveAs::full) return gathered_texts(storage, mine);
    return agreed(comm_, [&] {
      const bool empty = holds_nothing(mine), unwritten = empty || as_ == SaveAs::seeds;
      return text_of(write_shard(unwritten ? nullptr : storage, shard_path(), metadata(), mine),
                     empty);
    });
  }

  std::vector<std::string> gathered_texts(Storage* storage, std::span<const SaveItem> mine) {
    WrittenShard shard;
    std::exception_ptr failure;
    try {
      shard = write_gathered(storage, comm_, shard_path(), metadata(), mine);
    } catch (const Error&) {
      if (!root() || comm_.poisoned()) throw;  // what the others did is not known
      failure = std::current_exception();
    }
    return agreed(comm_, [&] {
      if (failure) std::rethrow_exception(failure);
      return text_of(shard, shard.entries.empty());
    });
  }

  Manifest manifest_of(const std::vector<std::string>& shards) const {
    Manifest manifest;
    manifest.id = id_;
    manifest.facts = facts_;
    assemble(manifest, shards, "save of checkpoint " + id_);
    if (as_ != SaveAs::seeds) return manifest;
    manifest.seeds_alone = SeedsAlone{manifest.state_digest(), nonce_};
    manifest.files.clear();
    manifest.entries.clear();
    return manifest;
  }

  SaveReport publish(const std::vector<std::string>& shards) {
    const std::string text = on_root([&] {
      const Manifest manifest = manifest_of(shards);
      const bool written = !nonce_.empty() && commit(manifest);
      if (!written) {
        require_same(manifest);
        // Its writer may have died, or may stand, between its link and making that durable.
        storage_.sync_directory("");
      }
      std::uint64_t bytes = 0;
      for (const ShardFileRef& file : manifest.files) bytes += file.bytes;
      return Json{written, manifest.state_digest().hex(), bytes}.dump();
    });
    const Json json = parse_json(text, "save of checkpoint " + id_);
    SaveReport report;
    report.id = id_;
    report.written = json.at(0).get<bool>();
    report.state_digest = Digest::from_hex(json.at(1).get<std::string>());
    report.bytes = json.at(2).get<std::uint64_t>();
    return report;
  }

  // False when another writer committed the id first.
  bool commit(const Manifest& manifest) {
    const std::string text = manifest.print();
    if (as_ != SaveAs::seeds) storage_.sync_directory(directory());
    storage_.sync_directory("");
    const std::unique_ptr<File> file = storage_.create(draft());
    file->write(std::as_bytes(std::span(text)));
    file->sync();
    file->close();
    linked_ = true;  // until it is known not to be
    try {
      link_manifest(text);
      storage_.sync_directory("");
    } catch (...) {
      // A link that may not be durable must not be called committed, nor stay; and the shards must
      // not go before it is known to be gone.
      if (is_ours(text)) {
        storage_.remove(manifest_path(id_));
        storage_.sync_directory("");
      }
      linked_ = false;
      throw;
    }
    if (!linked_) return false;
    remove_quietly(draft());
    return true;
  }

  // Links, or finds that another writer was first. A file system may say "exists" of a link that it
  // made itself (a repeated request over a network), so the text decides.
  void link_manifest(const std::string& text) {
    try {
      storage_.link(draft(), manifest_path(id_));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::conflict) throw;
      linked_ = is_ours(text);
    }
  }

  // The nonce is in the text: no two attempts write the same.
  bool is_ours(const std::string& text) {
    const std::string path = manifest_path(id_);
    return storage_.exists(path) && storage_.size(path) == text.size() &&
           read_text(storage_, path, text.size()) == text;
  }

  // The committed checkpoint of this id must hold this state.
  void require_same(const Manifest& mine) {
    const Manifest there = read_manifest(storage_, id_);
    const auto compare = [&](const char* what, const std::string& ours, const std::string& theirs) {
      if (ours == theirs) return;
      throw Error(ErrorKind::conflict, "checkpoint " + id_,
                  fmt::format("exists with {} {}; this one has {}", what, theirs, ours));
    };
    compare("state digest", mine.state_digest().hex(), there.state_digest().hex());
    compare("step", std::to_string(mine.facts.step), std::to_string(there.facts.step));
    compare("cursor", mine.facts.cursor.dump(), there.facts.cursor.dump());
    compare("seeds", mine.facts.seeds.dump(), there.facts.seeds.dump());
    compare("data digest", mine.facts.data_digest, there.facts.data_digest);
    compare("tokenizer digest", mine.facts.tokenizer_digest, there.facts.tokenizer_digest);
    compare("origin", mine.facts.origin.dump(), there.facts.origin.dump());
  }

  void remove_quietly(const std::string& path) {
    try {
      storage_.remove(path);
    } catch (const Error&) {  // a leftover that no reader looks for
    }
  }

  // Removes what this attempt wrote, unless a manifest may refer to it.
  void clear_away() {
    if (linked_) return;
    try {
      remove_quietly(draft());
      for (const std::string& name : storage_.list(directory())) {
        remove_quietly(directory() + "/" + name);
      }
      storage_.remove_directory(directory());
    } catch (const std::exception&) {  // what ended the save says more
    }
  }

  Storage& storage_;
  Communicator& comm_;
  const std::string& id_;
  const CheckpointFacts& facts_;
  const SaveAs as_;
  std::string nonce_;    // empty: the id is committed already
  bool linked_ = false;  // rank 0: the manifest may be in place, and ours
};

}  // namespace

Digest state_digest_of(Communicator& comm, std::span<const SaveItem> mine) {
  const std::vector<std::string> shards = agreed(comm, [&] {
    const std::string file = fmt::format("rank_{}", comm.rank());  // none, but each its own
    return text_of(write_shard(nullptr, file, {}, mine), holds_nothing(mine));
  });
  const auto digests = agreed(comm, [&]() -> std::string {
    if (comm.rank() != 0) return "";
    Manifest manifest;
    assemble(manifest, shards, "state");
    return manifest.state_digest().hex();
  });
  return Digest::from_hex(digests.front());
}

SaveReport save_checkpoint(Storage& storage, Communicator& comm, const std::string& id,
                           const CheckpointFacts& facts, std::span<const SaveItem> mine,
                           SaveAs as) {
  const double before = thread_cpu_seconds();
  SaveReport report = Save(storage, comm, id, facts, as).run(mine);
  report.cpu_seconds = thread_cpu_seconds() - before;
  return report;
}

}  // namespace shardproof
