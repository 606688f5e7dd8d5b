// dcp: see the header. What the pickle's classes hold is said by torch/distributed/checkpoint
// (metadata.py, filesystem.py) of PyTorch 2.11.
#include "checkpoint/foreign/dcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "checkpoint/foreign/pickle_objects.h"
#include "checkpoint/foreign/torch_file.h"
#include "checkpoint/foreign/zip.h"

namespace shardproof::foreign {
namespace {

using Kind = PickleNode::Kind;

// Where the storage data says that something lies.
struct Stored {
  std::string file;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

using Key = std::pair<std::string, Shape>;  // name, and where a tensor's chunk begins

class Reader {
 public:
  Reader(Checkpoint& checkpoint, const PickleObjects& objects)
      : out_(checkpoint), objects_(objects) {}

  void read() {
    const PickleNode& metadata = member_of(objects_.root(), "Metadata", "state_dict_metadata");
    read_storage(member_of(objects_.root(), "Metadata", "storage_data"));
    for (std::size_t i = 0; i + 1 < metadata.items.size(); i += 2) {
      const std::string name = objects_.at(metadata.items[i]).text;
      const PickleNode& item = objects_.at(metadata.items[i + 1]);
      if (is_class(item, "TensorStorageMetadata")) {
        read_tensor(name, item);
      } else if (is_class(item, "BytesStorageMetadata")) {
        read_bytes(name);
      } else {
        fail(name + ": neither a tensor nor bytes");
      }
    }
    check_parts();
    for (const auto& [key, stored] : storage_) {
      if (used_.contains(key)) continue;
      out_.damage(key.first, "a tensor or object of this name",
                  fmt::format("bytes of it in {}, and no entry", stored.file));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::corrupt, dcp_metadata, what);
  }

  // Classes of torch.distributed.checkpoint, wherever in it they are.
  bool is_class(const PickleNode& node, const std::string& name) const {
    if (node.kind != Kind::call) return false;
    const PickleNode& global = objects_.at(node.items[0]);
    return global.kind == Kind::global &&
           global.text.starts_with("torch.distributed.checkpoint.") &&
           global.text.ends_with("." + name);
  }

  const PickleNode& member_of(const PickleNode& object, const std::string& type,
                              const std::string& name) const {
    const PickleNode* state = is_class(object, type) ? objects_.state(object) : nullptr;
    const PickleNode* found = state == nullptr ? nullptr : objects_.find(*state, name);
    if (found == nullptr) fail(fmt::format("no {} with a member '{}'", type, name));
    return *found;
  }

  std::int64_t integer(const PickleNode& node) const {
    if (node.kind != Kind::integer) fail("a number that is none");
    return node.integer;
  }

  // torch.Size((2, 3)), or the bare tuple.
  Shape shape(const PickleNode& node) const {
    const PickleNode* list = &node;
    if (objects_.is_call(node, "torch.Size")) {
      const PickleNode& arguments = objects_.arguments(node);
      if (arguments.items.size() != 1) fail("a torch.Size without its numbers");
      list = &objects_.at(arguments.items[0]);
    }
    if (list->kind != Kind::list) fail("a size that is no torch.Size");
    Shape out;
    for (const std::uint32_t item : list->items) out.push_back(integer(objects_.at(item)));
    return out;
  }

  void read_storage(const PickleNode& data) {
    for (std::size_t i = 0; i + 1 < data.items.size(); i += 2) {
      const PickleNode& index = objects_.at(data.items[i]);
      const PickleNode& info = objects_.at(data.items[i + 1]);
      Key key{member_of(index, "MetadataIndex", "fqn").text, {}};
      // Of objects that are no tensors there is none.
      const PickleNode* offset = objects_.find(*objects_.state(index), "offset");
      if (offset != nullptr && offset->kind != Kind::none) key.second = shape(*offset);
      const Stored stored{member_of(info, "_StorageInfo", "relative_path").text,
                          integer(member_of(info, "_StorageInfo", "offset")),
                          integer(member_of(info, "_StorageInfo", "length"))};
      if (!storage_.emplace(key, stored).second) {
        out_.damage(key.first, "a chunk once", "its bytes are there twice");
      }
      parts_[stored.file].emplace(stored.offset, std::pair(stored.length, key.first));
    }
  }

  // The part of a file; nothing (and a damage) where it is not there or not all of it.
  std::optional<Stored> find(const Key& key) {
    const auto found = storage_.find(key);
    if (found == storage_.end()) {
      out_.damage(key.first, "a place in a file", "none in the storage data");
      return std::nullopt;
    }
    used_.insert(key);
    const Stored& stored = found->second;
    const bool inside = !stored.file.empty() && stored.file[0] != '/' &&
                        ("/" + stored.file + "/").find("/../") == std::string::npos;
    if (!inside) fail(key.first + ": the file '" + stored.file + "', which is not in the folder");
    const auto map = out_.open(stored.file);
    if (!map) return std::nullopt;
    const auto size = static_cast<std::int64_t>(map->size());
    if (stored.offset < 0 || stored.length < 0 || stored.offset > size ||
        stored.length > size - stored.offset) {
      out_.damage(stored.file + ": " + key.first,
                  fmt::format("bytes [{}, {})", stored.offset, stored.offset + stored.length),
                  fmt::format("truncation: the file has {} bytes", size));
      return std::nullopt;
    }
    return stored;
  }

  void read_tensor(const std::string& name, const PickleNode& item) {
    const PickleNode& properties = member_of(item, "TensorStorageMetadata", "properties");
    const PickleNode* state = objects_.state(properties);
    if (state == nullptr || state->items.empty()) fail(name + ": no dtype");
    const std::string dtype = objects_.at(state->items[0]).text;
    Tensor tensor{.name = name,
                  .type = element_type(dtype.substr(dtype.rfind('.') + 1)),
                  .shape = shape(member_of(item, "TensorStorageMetadata", "size")),
                  .chunks = {}};
    if (tensor.type.bytes == 0) out_.notes.push_back(name + ": elements of " + dtype);
    for (const std::uint32_t index : member_of(item, "TensorStorageMetadata", "chunks").items) {
      const PickleNode& chunk = objects_.at(index);
      const Box box{shape(member_of(chunk, "ChunkStorageMetadata", "offsets")),
                    shape(member_of(chunk, "ChunkStorageMetadata", "sizes"))};
      read_chunk(tensor, box);
    }
    out_.add(std::move(tensor));
  }

  void read_chunk(Tensor& tensor, const Box& box) {
    Chunk chunk{.box = box, .run = {}, .file = {}, .begin = 0, .end = 0};
    const auto stored = find({tensor.name, box.offsets});
    if (stored) {
      const auto inner = read_part(tensor.name, *stored);
      const Tensor* found = inner && inner->size() == 1 ? &inner->begin()->second : nullptr;
      if (found != nullptr && found->type == tensor.type && found->shape == box.shape) {
        const Chunk& bytes = found->chunks.at(0);
        chunk.file = bytes.file;
        chunk.begin = bytes.begin;
        chunk.end = bytes.end;
        chunk.strides = bytes.strides;
      } else if (inner && tensor.type.bytes > 0) {
        out_.damage(
            stored->file + ": " + tensor.name, "a chunk of " + words(tensor.type, box.shape),
            found == nullptr ? "no tensor" : "size mismatch: " + words(found->type, found->shape));
      }
    }
    tensor.chunks.push_back(std::move(chunk));
  }

  // What an archive holds. Nothing where it is damaged, which is said.
  std::optional<std::map<std::string, Tensor>> read_part(const std::string& name,
                                                         const Stored& stored) {
    Checkpoint part{.format = {},
                    .folder = out_.folder,
                    .tensors = {},
                    .damages = {},
                    .notes = {},
                    .files = out_.files};
    const auto begin = static_cast<std::uint64_t>(stored.offset);
    try {
      read_torch_archive(part, stored.file, begin,
                         begin + static_cast<std::uint64_t>(stored.length), "");
    } catch (const Error& error) {
      part.damage(error.place(), "what torch.save writes", error.detail());
    }
    for (const Damage& damage : part.damages) {
      const std::string where = damage.where.starts_with(stored.file)
                                    ? damage.where.substr(stored.file.size())
                                    : damage.where;
      out_.damage(stored.file + ": " + name + where, damage.expected, damage.found);
    }
    for (const std::string& note : part.notes) out_.notes.push_back(name + ": " + note);
    if (!part.damages.empty()) return std::nullopt;
    return std::move(part.tensors);
  }

  // Objects that are no tensors; those that are archives are looked into.
  void read_bytes(const std::string& name) {
    const auto stored = find({name, {}});
    if (!stored) return;
    const auto part = out_.open(stored->file)
                          ->bytes()
                          .subspan(static_cast<std::uint64_t>(stored->offset),
                                   static_cast<std::uint64_t>(stored->length));
    if (looks_like_zip(part)) {
      read_part(name, *stored);
    } else {
      out_.notes.push_back(name + ": an object whose bytes have no check sum");
    }
  }

  // Parts of a file lie end to end: a hole or an overlap is no writer's.
  void check_parts() {
    for (const auto& [file, parts] : parts_) {
      std::int64_t at = 0;
      for (const auto& [offset, part] : parts) {
        if (offset < at) {
          out_.damage(file + ": " + part.second, fmt::format("bytes from {} on", at),
                      fmt::format("an overlap: from {} on", offset));
        }
        at = std::max(at, offset + part.first);
      }
    }
  }

  Checkpoint& out_;
  const PickleObjects& objects_;
  std::map<Key, Stored> storage_;
  std::map<std::string, std::multimap<std::int64_t, std::pair<std::int64_t, std::string>>> parts_;
  std::set<Key> used_;
};

}  // namespace

void read_dcp(Checkpoint& checkpoint) {
  const auto map = checkpoint.open(dcp_metadata);
  if (!map) return;
  const PickleObjects objects = PickleObjects::parse(text_of(map->bytes()), dcp_metadata);
  Reader(checkpoint, objects).read();
}

}  // namespace shardproof::foreign
