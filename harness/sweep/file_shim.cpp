// file_shim: counts and cuts. See the header.
#include "harness/sweep/file_shim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness/sweep/control_page.h"

namespace shardproof::shim {
namespace {

ControlPage* page = nullptr;
char root[PATH_MAX];
std::size_t root_length = 0;

__attribute__((constructor)) void open_control() {
  const char* control = std::getenv(sweep_control_variable);
  const char* folder = std::getenv(sweep_root_variable);
  if (control == nullptr || folder == nullptr || std::strlen(folder) >= sizeof root) return;
  const int fd = static_cast<int>(SHIM_REAL(open)(control, O_RDWR | O_CLOEXEC));
  if (fd < 0) return;
  void* memory =
      SHIM_REAL(mmap)(nullptr, sizeof(ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) return;
  std::strcpy(root, folder);
  root_length = std::strlen(root);
  page = static_cast<ControlPage*>(memory);
}

// The root itself counts: a saver may make it or rename it.
bool is_under(const char* path) {
  return page != nullptr && std::strncmp(path, root, root_length) == 0 &&
         (path[root_length] == '/' || path[root_length] == '\0');
}

class KeptErrno {
 public:
  KeptErrno() : kept_(errno) {}
  ~KeptErrno() { errno = kept_; }

 private:
  int kept_;
};

// Joins and takes out "//", "." and "..", as text.
void join(const char* folder, const char* name, char* out) {
  char all[2 * PATH_MAX];
  std::snprintf(all, sizeof all, "%s/%s", folder, name);
  std::size_t length = 0;
  for (const char* at = all; *at != '\0';) {
    while (*at == '/') ++at;
    const std::size_t part = std::strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.') {
      while (length > 0 && out[--length] != '/') {
      }
    } else if (part > 0 && !(part == 1 && at[0] == '.') && length + part + 2 < PATH_MAX) {
      out[length++] = '/';
      std::memcpy(out + length, at, part);
      length += part;
    }
    at += part;
  }
  out[length] = '\0';
}

bool link_of(int fd, char* out) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, out, PATH_MAX - 1);
  if (length <= 0 || out[0] != '/') return false;
  out[length] = '\0';
  return true;
}

void copy_tail(char* to, std::size_t room, const Path& path) {
  const char* from = path.text;
  if (path.under) {
    from += root_length;
    if (*from == '/') ++from;
  }
  if (*from == '\0') from = ".";
  const std::size_t length = std::strlen(from);
  if (length >= room) from += length - room + 1;
  std::strcpy(to, from);
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// Who comes by after the cut. A thread of this process may be the one that is cut: it says what it
// was at, and does its half, before the process goes. Its own process may be gone, too.
[[noreturn]] void die_after_the_cut() {
  constexpr int most_looks = 2000;  // about two seconds
  for (int i = 0; i < most_looks && __atomic_load_n(&page->fired, __ATOMIC_SEQ_CST) == 0; ++i) {
    ::usleep(1000);
  }
  __atomic_store_n(&page->fired, page->kill_at, __ATOMIC_SEQ_CST);
  die();
}

}  // namespace

void* next_function(const char* name) {
  return ::dlsym(RTLD_NEXT, name);
}

Path path_of(int fd) {
  Path path;
  path.text[0] = '\0';
  if (page == nullptr || fd < 0) return path;
  const KeptErrno kept;
  path.under = link_of(fd, path.text) && is_under(path.text);
  return path;
}

Path path_of(int directory, const char* name) {
  Path path;
  path.text[0] = '\0';
  if (page == nullptr || name == nullptr) return path;
  const KeptErrno kept;
  char folder[PATH_MAX] = "";
  if (name[0] != '/') {
    const bool found = directory == AT_FDCWD ? ::getcwd(folder, sizeof folder) != nullptr
                                             : link_of(directory, folder);
    if (!found) return path;
  }
  join(folder, name, path.text);
  char* last = std::strrchr(path.text, '/');
  if (last != nullptr && last != path.text) {
    char parent[PATH_MAX], whole[PATH_MAX];
    *last = '\0';
    const bool real = ::realpath(path.text, parent) != nullptr;
    *last = '/';
    if (real) {
      join(parent, last + 1, whole);
      std::strcpy(path.text, whole);
    }
  }
  path.under = is_under(path.text);
  return path;
}

Go before(const char* name, const Path& path, const Path* to, std::uint64_t bytes) {
  if (page == nullptr || (!path.under && (to == nullptr || !to->under))) return Go::whole;
  const KeptErrno kept;
  const std::uint64_t number = __atomic_add_fetch(&page->count, 1, __ATOMIC_SEQ_CST);
  const std::uint64_t kill_at = __atomic_load_n(&page->kill_at, __ATOMIC_SEQ_CST);
  if (kill_at != 0 && number > kill_at) die_after_the_cut();
  if (number <= max_sweep_operations) {
    SweepOperation& operation = page->operations[number - 1];
    std::strncpy(operation.name, name, sizeof operation.name - 1);
    operation.pid = ::getpid();
    operation.bytes = bytes;
    operation.torn = bytes > 1 ? 1 : 0;
    copy_tail(operation.path, sizeof operation.path, path);
    if (to != nullptr) copy_tail(operation.to, sizeof operation.to, *to);
  }
  if (number != kill_at) return Go::whole;
  if (page->half != 0 && bytes > 1) return Go::half;  // the wrapper does it, then calls cut()
  __atomic_store_n(&page->fired, number, __ATOMIC_SEQ_CST);
  die();
}

void cut() {
  __atomic_store_n(&page->fired, page->kill_at, __ATOMIC_SEQ_CST);
  die();
}

void saw_mapping() {
  if (page != nullptr) __atomic_add_fetch(&page->mapped, 1, __ATOMIC_SEQ_CST);
}

}  // namespace shardproof::shim
