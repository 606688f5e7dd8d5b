// storage: path rules and the forwarding base. See storage.h.
#include "checkpoint/storage.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shardproof {
namespace {

// The reason a path must not be used, or null.
const char* path_problem(const std::string& path) {
  constexpr std::size_t longest = 1024;
  if (path.size() > longest) return "is longer than 1024 bytes";
  for (const unsigned char c : path) {
    if (c < 0x20 || c == 0x7f) return "holds a control character";
  }
  if (path.front() == '/') return "is absolute";
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty()) return "has an empty component";
    if (part == "." || part == "..") return "has a '.' or '..' component";
    begin = end + 1;
  }
  return nullptr;
}

std::string printable(const std::string& path) {
  std::string out;
  for (const char c : path.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

}  // namespace

void check_storage_path(const std::string& path, bool root_is_fine) {
  if (path.empty()) {
    if (root_is_fine) return;
    throw Error(ErrorKind::refused, "storage path ''", "is empty; expected a path below the root");
  }
  if (const char* problem = path_problem(path)) {
    throw Error(ErrorKind::refused, fmt::format("storage path '{}'", printable(path)),
                fmt::format("{}; expected a relative path that stays below the root", problem));
  }
}

std::string read_text(Storage& storage, const std::string& path, std::uint64_t max_bytes) {
  const std::uint64_t bytes = storage.size(path);
  if (bytes > max_bytes) {
    throw Error(ErrorKind::corrupt, path,
                fmt::format("holds {} bytes; expected at most {}", bytes, max_bytes));
  }
  std::string text(bytes, '\0');
  storage.read(path, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::unique_ptr<File> ForwardingStorage::create(const std::string& path) {
  return inner_->create(path);
}
void ForwardingStorage::make_directory(const std::string& path) {
  inner_->make_directory(path);
}
void ForwardingStorage::sync_directory(const std::string& path) {
  inner_->sync_directory(path);
}
void ForwardingStorage::link(const std::string& from, const std::string& to) {
  inner_->link(from, to);
}
void ForwardingStorage::remove(const std::string& path) {
  inner_->remove(path);
}
void ForwardingStorage::remove_directory(const std::string& path) {
  inner_->remove_directory(path);
}
bool ForwardingStorage::exists(const std::string& path) {
  return inner_->exists(path);
}
std::uint64_t ForwardingStorage::size(const std::string& path) {
  return inner_->size(path);
}
std::vector<std::string> ForwardingStorage::list(const std::string& path) {
  return inner_->list(path);
}
void ForwardingStorage::read(const std::string& path, std::uint64_t offset,
                             std::span<std::byte> out) {
  inner_->read(path, offset, out);
}

}  // namespace shardproof
