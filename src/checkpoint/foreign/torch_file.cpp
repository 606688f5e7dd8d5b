// torch_file: see the header.
#include "checkpoint/foreign/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "checkpoint/foreign/pickle_objects.h"
#include "checkpoint/foreign/zip.h"

namespace shardproof::foreign {
namespace {

using Kind = PickleNode::Kind;

constexpr int max_depth = 64;
constexpr std::size_t max_walked = std::size_t{1} << 22;  // shared ones at each place

// "torch.FloatStorage" and the like.
ElementType storage_type(const std::string& global) {
  static const std::map<std::string, std::string> names{
      {"FloatStorage", "F32"},        {"DoubleStorage", "F64"},
      {"HalfStorage", "F16"},         {"LongStorage", "I64"},
      {"IntStorage", "I32"},          {"ShortStorage", "I16"},
      {"CharStorage", "I8"},          {"ByteStorage", "U8"},
      {"BoolStorage", "BOOL"},        {"BFloat16Storage", "BF16"},
      {"ComplexFloatStorage", "C64"}, {"ComplexDoubleStorage", "C128"}};
  const auto found = names.find(global.substr(global.rfind('.') + 1));
  return found == names.end() ? ElementType{global, 0} : element_type(found->second);
}

// A key of a dict as part of a name.
std::string key_text(const PickleNode& key) {
  if (key.kind == Kind::integer) return std::to_string(key.integer);
  return key.kind == Kind::text ? key.text : "?";
}

class Archive {
 public:
  Archive(Checkpoint& checkpoint, const std::string& file, std::uint64_t begin, std::uint64_t end)
      : out_(checkpoint),
        file_(file),
        begin_(begin),
        bytes_(checkpoint.open(file)->bytes().subspan(begin, end - begin)) {}

  PickleObjects read(const std::string& prefix) {
    records_ = read_zip(bytes_, file_);
    PickleObjects objects = PickleObjects::parse(record_text("data.pkl"), file_);
    objects_ = &objects;
    const std::string order =
        records_.contains(folder_ + "byteorder") ? std::string(record_text("byteorder")) : "little";
    if (order != "little") {
      throw Error(ErrorKind::corrupt, file_, "byte order '" + order + "'; expected little");
    }
    walk(objects.root(), prefix, 0);
    check_crcs();
    note_globals();
    objects_ = nullptr;
    return objects;
  }

 private:
  std::string_view record_text(const std::string& name) {
    if (folder_.empty()) {
      for (const auto& [record, where] : records_) {
        if (record.ends_with("/data.pkl")) folder_ = record.substr(0, record.size() - 8);
      }
    }
    const auto found = records_.find(folder_ + name);
    if (found == records_.end()) {
      throw Error(ErrorKind::corrupt, file_,
                  "no record '" + name +
                      "'; expected what torch.save "
                      "writes");
    }
    // A pickle that is damaged is not followed.
    if (!found->second.whole) {
      throw Error(ErrorKind::corrupt, file_,
                  fmt::format("record '{}': CRC mismatch, expected {:08x}", found->first,
                              found->second.crc));
    }
    return text_of(bytes_.subspan(found->second.begin, found->second.end - found->second.begin));
  }

  void walk(const PickleNode& node, const std::string& name, int depth) {
    if (depth > max_depth || ++walked_ > max_walked) {
      throw Error(ErrorKind::corrupt, file_,
                  name + ": nested deeper than 64, or more than 4 million values");
    }
    const auto inner = [&](const std::string& key) {
      return name.empty() ? key : name + "." + key;
    };
    if (node.kind == Kind::dict || (node.kind == Kind::call && !node.pairs.empty())) {
      const auto& pairs = node.kind == Kind::dict ? node.items : node.pairs;
      for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
        walk(objects_->at(pairs[i + 1]), inner(key_text(objects_->at(pairs[i]))), depth + 1);
      }
    } else if (node.kind == Kind::list) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        walk(objects_->at(node.items[i]), inner(std::to_string(i)), depth + 1);
      }
    } else if (node.kind == Kind::call) {
      walk_call(node, name, depth);
    }
  }

  void walk_call(const PickleNode& node, const std::string& name, int depth) {
    const PickleNode& arguments = objects_->arguments(node);
    const auto argument = [&](std::size_t i) -> const PickleNode& {
      if (arguments.kind != Kind::list || i >= arguments.items.size()) {
        throw Error(ErrorKind::corrupt, file_, name + ": a tensor without its arguments");
      }
      return objects_->at(arguments.items[i]);
    };
    if (objects_->is_call(node, "torch._utils._rebuild_tensor_v2")) {
      add_tensor(name, argument(0), argument(1), argument(2), argument(3), nullptr);
    } else if (objects_->is_call(node, "torch._utils._rebuild_tensor_v3")) {
      add_tensor(name, argument(0), argument(1), argument(2), argument(3), &argument(6));
    } else if (objects_->is_call(node, "torch._utils._rebuild_parameter")) {
      walk(argument(0), name, depth + 1);
    } else if (objects_->is_call(node, "torch._tensor._rebuild_from_type_v2")) {
      argument(2);  // it is there
      const PickleNode inner{.kind = Kind::call, .items = {arguments.items[0], arguments.items[2]}};
      walk(inner, name, depth + 1);
    } else if (const PickleNode* state = objects_->state(node)) {
      walk(*state, name, depth + 1);
    }
  }

  Shape shape_of(const PickleNode& node, const std::string& name) {
    Shape shape;
    for (const std::uint32_t item : node.items) {
      const PickleNode& extent = objects_->at(item);
      if (node.kind != Kind::list || extent.kind != Kind::integer || extent.integer < 0) {
        throw Error(ErrorKind::corrupt, file_, name + ": a shape or stride that is none");
      }
      shape.push_back(extent.integer);
    }
    return shape;
  }

  void add_tensor(const std::string& name, const PickleNode& storage, const PickleNode& offset,
                  const PickleNode& size, const PickleNode& stride, const PickleNode* dtype) {
    // ("storage", its class, the record's key, device, elements)
    const PickleNode& id = objects_->arguments(storage);
    const bool known = objects_->is_call(storage, persistent_id) && id.kind == Kind::list &&
                       id.items.size() >= 5 && objects_->at(id.items[4]).kind == Kind::integer;
    if (!known) throw Error(ErrorKind::corrupt, file_, name + ": a tensor without a storage");
    const std::string key = key_text(objects_->at(id.items[2]));
    Tensor tensor{.name = name,
                  .type = storage_type(objects_->at(id.items[1]).text),
                  .shape = shape_of(size, name),
                  .chunks = {}};
    std::int64_t elements = objects_->at(id.items[4]).integer;
    if (dtype != nullptr) {
      tensor.type = element_type(dtype->text.substr(dtype->text.rfind('.') + 1));
      elements =
          tensor.type.bytes == 0 ? 0 : elements / static_cast<std::int64_t>(tensor.type.bytes);
    }
    if (tensor.type.bytes == 0) {
      return out_.notes.push_back(name + ": elements of " + tensor.type.name +
                                  " are not looked at");
    }
    const auto record = records_.find(folder_ + "data/" + key);
    if (record == records_.end()) {
      return out_.damage(file_ + ": " + name, "a record 'data/" + key + "'", "none");
    }
    names_[record->first].push_back(name);
    place(std::move(tensor), record->second, elements, offset.integer, shape_of(stride, name));
  }

  // Whether the elements that the tensor names are all in its storage, and the storage whole.
  void place(Tensor tensor, const ZipRecord& record, std::int64_t elements, std::int64_t offset,
             Shape strides) {
    const auto width = static_cast<std::int64_t>(tensor.type.bytes);
    const std::string where = file_ + ": " + tensor.name;
    const auto bytes = static_cast<std::int64_t>(record.end - record.begin);
    if (elements < 0 || elements > bytes / width || elements * width != bytes) {
      return out_.damage(where,
                         fmt::format("a storage of {} elements of {}", elements, tensor.type.name),
                         fmt::format("size mismatch: a record of {} bytes", bytes));
    }
    const std::int64_t count = checked_elements(tensor.shape);
    std::int64_t last = offset;
    bool fits = count >= 0 && offset >= 0 && strides.size() == tensor.shape.size();
    for (std::size_t i = 0; fits && count > 0 && i < strides.size(); ++i) {
      std::int64_t step = 0;
      fits = !__builtin_mul_overflow(strides[i], tensor.shape[i] - 1, &step) &&
             !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || (count > 0 && last >= elements) || offset > elements) {
      return out_.damage(where, fmt::format("elements within its storage of {}", elements),
                         fmt::format("{} from element {} on runs past it",
                                     words(tensor.type, tensor.shape), offset));
    }
    Chunk chunk{.box = {Shape(tensor.shape.size(), 0), tensor.shape},
                .run = {},
                .file = file_,
                .begin = begin_ + record.begin + static_cast<std::uint64_t>(offset * width),
                .end = 0,
                .strides = {}};
    const std::int64_t span = count == 0 ? 0 : last - offset + 1;
    chunk.end = chunk.begin + static_cast<std::uint64_t>(span * width);
    std::int64_t dense = 1;
    for (std::size_t i = strides.size(); i-- > 0;) {
      if (tensor.shape[i] != 1 && strides[i] != dense && count > 0) chunk.strides = strides;
      dense *= tensor.shape[i];
    }
    tensor.chunks.push_back(std::move(chunk));
    out_.add(std::move(tensor));
  }

  void check_crcs() {
    for (const auto& [name, record] : records_) {
      if (record.whole) continue;
      const auto users = names_.find(name);
      const std::string tensors =
          users == names_.end() ? "" : fmt::format(" ({})", fmt::join(users->second, ", "));
      out_.damage(fmt::format("{}: record '{}'{}", file_, name, tensors),
                  fmt::format("CRC {:08x}", record.crc),
                  fmt::format("CRC {:08x}",
                              crc32(bytes_.subspan(record.begin, record.end - record.begin))));
    }
  }

  // What torch.load would run if it were let.
  void note_globals() {
    for (const std::string& global : objects_->globals()) {
      const bool usual = global.starts_with("torch.") || global == "collections.OrderedDict" ||
                         global == "collections.defaultdict" || global.starts_with("numpy.") ||
                         global.starts_with("_codecs.encode") || global == persistent_id;
      if (!usual) out_.notes.push_back(file_ + ": its pickle names " + global + " (not executed)");
    }
  }

  Checkpoint& out_;
  const std::string file_;
  const std::uint64_t begin_;
  const std::span<const std::byte> bytes_;
  std::map<std::string, ZipRecord> records_;
  std::string folder_;  // of the records: "archive/"
  const PickleObjects* objects_ = nullptr;
  std::size_t walked_ = 0;
  std::map<std::string, std::vector<std::string>> names_;  // of tensors, by record
};

std::optional<std::int64_t> argument(const PickleObjects& objects, const PickleNode& dict,
                                     std::string_view key) {
  const PickleNode* node = objects.find(dict, key);
  if (node == nullptr || node->kind != Kind::integer) return std::nullopt;
  return node->integer;
}

// nanoGPT keeps the model's shape beside the model.
void check_nano_gpt(Checkpoint& checkpoint, const PickleObjects& objects, const PickleNode& args) {
  checkpoint.format = "nanoGPT (torch.save)";
  const auto find = [&](const std::string& end) -> const Tensor* {
    for (const auto& [name, tensor] : checkpoint.tensors) {
      if (name.starts_with("model.") && name.ends_with(end)) return &tensor;
    }
    return nullptr;
  };
  const auto vocabulary = argument(objects, args, "vocab_size"),
             width = argument(objects, args, "n_embd"),
             block = argument(objects, args, "block_size"),
             layers = argument(objects, args, "n_layer");
  const auto expect = [&](const std::string& end, std::optional<std::int64_t> rows) {
    if (!rows || !width) return;
    const Tensor* tensor = find(end);
    const Shape shape{*rows, *width};
    if (tensor != nullptr && tensor->shape == shape) return;
    checkpoint.damage("model" + end, fmt::format("[{}], as model_args say", fmt::join(shape, ",")),
                      tensor == nullptr ? "none" : words(tensor->type, tensor->shape));
  };
  expect(".transformer.wte.weight", vocabulary);
  expect(".transformer.wpe.weight", block);
  for (std::int64_t layer = 0; layers && layer < std::min<std::int64_t>(*layers, 4096); ++layer) {
    const std::string name = fmt::format(".transformer.h.{}.ln_1.weight", layer);
    if (find(name) == nullptr) {
      return checkpoint.damage("model" + name, fmt::format("{} layers, as model_args say", *layers),
                               "none");
    }
  }
}

}  // namespace

void read_torch_archive(Checkpoint& checkpoint, const std::string& file, std::uint64_t begin,
                        std::uint64_t end, const std::string& prefix) {
  Archive(checkpoint, file, begin, end).read(prefix);
}

void read_torch_file(Checkpoint& checkpoint, const std::string& file) {
  const auto map = checkpoint.open(file);
  if (!map) return;
  const PickleObjects objects = Archive(checkpoint, file, 0, map->size()).read("");
  const PickleNode* args = objects.find(objects.root(), "model_args");
  if (args != nullptr && objects.find(objects.root(), "model") != nullptr) {
    check_nano_gpt(checkpoint, objects, *args);
  }
}

}  // namespace shardproof::foreign
