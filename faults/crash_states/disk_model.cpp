// disk_model: see disk_model.h.
#include "faults/crash_states/disk_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace shardproof::crash {
namespace {

using Kind = Operation::Kind;

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& parts) {
  std::vector<std::byte> out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Where unsynced bytes may be cut: after one, before the last, in the middle, and between writes
// (of many, the first and the last few).
std::vector<std::size_t> cuts(const std::vector<std::vector<std::byte>>& writes) {
  std::vector<std::size_t> bounds;
  std::size_t bytes = 0;
  for (const auto& write : writes) bounds.push_back(bytes += write.size());
  constexpr std::size_t few = 4;
  std::vector<std::size_t> out = {1, bytes / 2, bytes - 1};
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (i < few || i + few >= bounds.size()) out.push_back(bounds[i]);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  std::erase_if(out, [&](std::size_t cut) { return cut == 0 || cut >= bytes; });
  return out;
}

}  // namespace

DiskModel::DiskModel() : nodes_(1) {}

int DiskModel::find(const std::string& path) const {
  int node = 0;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const auto& names = nodes_[static_cast<std::size_t>(node)].now;
    const auto found = names.find(path.substr(begin, end - begin));
    if (found == names.end()) return -1;
    node = found->second;
    begin = end + 1;
  }
  return node;
}

void DiskModel::change(const std::string& path, int node, bool link) {
  const auto [parent, name] = split(path);
  const int directory = find(parent);
  if (directory < 0 && node < 0) return;  // removing from a folder that is gone
  SP_CHECK(directory >= 0, path);
  auto& now = nodes_[static_cast<std::size_t>(directory)].now;
  if (node < 0 && !now.contains(name)) return;  // removing what is missing
  changes_.push_back({applied_, directory, name, node, link});
  if (node < 0) now.erase(name);
  if (node >= 0) now[name] = node;
}

void DiskModel::sync_names(int directory) {
  Node& node = nodes_[static_cast<std::size_t>(directory)];
  node.durable = node.now;
  std::erase_if(changes_, [&](const Change& change) { return change.directory == directory; });
}

void DiskModel::apply(const Operation& operation) {
  const auto file = [&]() -> Node& {
    Node& node = nodes_[static_cast<std::size_t>(files_.at(operation.file))];
    node.variants.clear();
    return node;
  };
  const auto sync = [](Node& node) {
    const std::vector<std::byte> more = joined(std::exchange(node.writes, {}));
    node.synced.insert(node.synced.end(), more.begin(), more.end());
    node.variants.clear();
  };
  switch (operation.kind) {
    case Kind::make_directory:
      if (find(operation.path) >= 0) break;
      nodes_.emplace_back();
      change(operation.path, static_cast<int>(nodes_.size()) - 1, false);
      break;
    case Kind::create:
      files_[operation.file] = static_cast<int>(nodes_.size());
      nodes_.emplace_back().directory = false;
      change(operation.path, files_[operation.file], false);
      break;
    case Kind::write:
      if (!operation.bytes.empty()) file().writes.push_back(operation.bytes);
      break;
    case Kind::sync:
      sync(file());
      break;
    case Kind::sync_directory:
      sync_names(find(operation.path));
      break;
    case Kind::link:
      change(operation.to, find(operation.path), true);
      break;
    case Kind::remove:
    case Kind::remove_directory:
      change(operation.path, -1, false);
      break;
    case Kind::settle:
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].directory) sync_names(static_cast<int>(i));
        sync(nodes_[i]);
      }
      break;
    case Kind::close:
    case Kind::crash_from:
    case Kind::promise:
    case Kind::release:
      break;
  }
  ++applied_;
}

DiskModel::Tree DiskModel::tree(const std::vector<bool>& kept) const {
  std::vector<std::map<std::string, int>> names(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) names[i] = nodes_[i].durable;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    if (!kept[i]) continue;
    const Change& change = changes_[i];
    auto& directory = names[static_cast<std::size_t>(change.directory)];
    if (change.node < 0) directory.erase(change.name);
    if (change.node >= 0) directory[change.name] = change.node;
  }
  Tree tree;
  walk("", 0, names, tree);
  return tree;
}

void DiskModel::walk(const std::string& prefix, int directory,
                     const std::vector<std::map<std::string, int>>& names, Tree& tree) const {
  for (const auto& [name, node] : names[static_cast<std::size_t>(directory)]) {
    const std::string path = prefix + name;
    tree.disk[path] = {};
    if (nodes_[static_cast<std::size_t>(node)].directory) {
      walk(path + "/", node, names, tree);
    } else {
      tree.open.emplace_back(path, node);
    }
  }
}

Content DiskModel::content(std::vector<std::byte> bytes) {
  const std::string key(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto [at, fresh] = ids_.emplace(key, ids_.size() + 1);
  return {std::make_shared<const std::vector<std::byte>>(std::move(bytes)), at->second};
}

const std::vector<DiskModel::Variant>& DiskModel::variants(int node) {
  Node& file = nodes_[static_cast<std::size_t>(node)];
  if (!file.variants.empty()) return file.variants;
  const std::vector<std::byte> more = joined(file.writes);
  const auto add = [&](Bytes bytes, std::span<const std::byte> tail) {
    std::vector<std::byte> all = file.synced;
    all.insert(all.end(), tail.begin(), tail.end());
    file.variants.push_back({bytes, content(std::move(all))});
  };
  add(Bytes::kept, more);
  if (more.empty()) return file.variants;
  add(Bytes::lost, {});
  for (const std::size_t cut : cuts(file.writes)) add(Bytes::torn, std::span(more).first(cut));
  constexpr std::byte old_block{0xa5};
  for (const auto& [bytes, fill] :
       {std::pair{Bytes::zeroed, std::byte{}}, std::pair{Bytes::stale, old_block}}) {
    const auto half = static_cast<std::ptrdiff_t>(more.size() / 2);
    for (const auto& [from, to] : {std::pair<std::ptrdiff_t, std::ptrdiff_t>{0, more.size()},
                                   {0, half},
                                   {half, more.size()}}) {
      std::vector<std::byte> tail = more;
      std::fill(tail.begin() + from, tail.begin() + to, fill);
      add(bytes, tail);
    }
  }
  return file.variants;
}

}  // namespace shardproof::crash
