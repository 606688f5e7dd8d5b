// bare_write: see bare_write.h.
#include "harness/bench/bare_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <system_error>

#include "base/error.h"

namespace shardproof::bench {

void write_and_sync(const std::string& path, const std::vector<std::vector<float>>& values) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const auto require = [&](bool done, const char* operation) {
    if (!done) {
      throw Error(ErrorKind::io, fmt::format("{} {}", operation, path),
                  std::generic_category().message(errno));
    }
  };
  require(fd >= 0, "create");
  const std::shared_ptr<void> closed(nullptr, [&](void*) { ::close(fd); });
  for (const auto& each : values) {
    auto bytes = std::as_bytes(std::span(each));
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      require(n >= 0 || errno == EINTR, "write");
      if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  require(::fsync(fd) == 0, "fsync");
}

}  // namespace shardproof::bench
