// control: connecting, the lines, and the thread that notices the end of the launcher.
#include "harness/control.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"
#include "comm/deadline_wait.h"
#include "harness/request_file.h"

namespace shardproof {

namespace {

struct Host {
  std::string name;
  std::string port;
};

std::vector<Host> parse_address(const std::string& text) {
  std::vector<Host> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const std::size_t colon = part.rfind(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == part.size() ||
        part.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
      throw Error(ErrorKind::bad_input, "SHARDPROOF_CONTROL",
                  "found '" + text + "', expected host:port[,host:port...]");
    }
    hosts.push_back({part.substr(0, colon), part.substr(colon + 1)});
    begin = end + 1;
  }
  return hosts;
}

// A connected socket, or -1 when the host does not answer in time.
int connect_once(const Host& host, Deadline deadline) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.name.c_str(), host.port.c_str(), &hints, &found) != 0) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int code = connect(fd, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (code != 0 && errno == EINPROGRESS) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    socklen_t length = sizeof code;
    if (poll(&ready, 1, static_cast<int>(wait.count())) != 1 ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) {
      code = -1;
    }
  }
  if (code != 0) {
    close(fd);
    return -1;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return fd;
}

int connect_to(const std::string& address, Deadline deadline) {
  const std::vector<Host> hosts = parse_address(address);
  do {
    for (const Host& host : hosts) {
      const Duration slice = std::min<Duration>(deadline.left(), std::chrono::seconds(2));
      if (const int fd = connect_once(host, Deadline::after(slice)); fd >= 0) return fd;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (!deadline.expired());
  throw Error(ErrorKind::environment, "control socket", "nobody answers at " + address);
}

void write_all(int fd, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = send(fd, text.data() + written, text.size() - written, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the host is gone: the watcher, if there is one, ends the rank
    written += static_cast<std::size_t>(count);
  }
}

void say_hello(int fd, const std::string& token, int rank, const char* stream) {
  write_all(fd, Json{{"kind", "hello"},
                     {"token", token},
                     {"rank", rank},
                     {"stream", stream},
                     {"pid", getpid()}}
                        .dump() +
                    "\n");
}

// A child that is forked and does not exec would hold the connection open, and hide the rank's
// death.
std::atomic<int> fd_to_close_in_children{-1};

void close_in_child() {
  if (const int fd = fd_to_close_in_children; fd >= 0) close(fd);
}

}  // namespace

struct ControlClient::Impl {
  int fd = -1;
  std::mutex mutex;  // one line at a time
  std::atomic<int> exit_code{exit_code_when_lost};
  std::atomic<bool> closing{false};
  std::thread watcher;

  static constexpr int exit_code_when_lost = 3;

  void write(const Json& line) {
    const std::lock_guard lock(mutex);
    write_all(fd, line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  // Whatever ends the reading is the host's end, or ours.
  void watch(bool ends_with_host) {
    std::array<char, 65536> bytes;
    std::string unread;
    for (;;) {
      const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      unread.append(bytes.data(), static_cast<std::size_t>(count));
      std::size_t begin = 0;
      for (std::size_t end; (end = unread.find('\n', begin)) != std::string::npos;
           begin = end + 1) {
        take(unread.substr(begin, end - begin));
      }
      unread.erase(0, begin);
    }
    if (!closing && ends_with_host) _exit(exit_code);
  }

  void take(const std::string& line) {
    try {
      const Json message = parse_json(line, "control socket", ErrorKind::corrupt);
      const std::string kind = string_member(message, "kind", "control line");
      const std::lock_guard lock(answers_mutex);
      if (kind == "records" && answers.records) {
        write({{"kind", "records"},
               {"look", integer_member(message, "look", kind)},
               {"records", to_json(answers.records())}});
      } else if (kind == "verdict" && answers.verdict) {
        answers.verdict(error_from_text(string_member(message, "error", kind)));
      } else if (kind == "all") {
        FlightRecords all;
        for (const Json& rank : member(message, "ranks", kind)) {
          all.ranks.push_back(rank_records_from_json(rank, "control socket"));
        }
        {
          const std::lock_guard looked_lock(looked_mutex);
          looked = std::move(all);
        }
        has_looked.notify_all();
      }
    } catch (const Error&) {  // a host that says more than we know
    }
  }

  // What this rank did last, for those that stay.
  void last_records() {
    const std::lock_guard lock(answers_mutex);
    if (!answers.records) return;
    write({{"kind", "records"}, {"look", -1}, {"records", to_json(answers.records())}});
  }

  std::mutex answers_mutex;  // held while one is called
  Answers answers;
  std::mutex looked_mutex;
  std::condition_variable has_looked;
  std::optional<FlightRecords> looked;
};

ControlClient::ControlClient(const std::string& address, const std::string& token, int rank,
                             ControlHost host, Duration patience) {
  if (address.empty()) return;
  impl_ = std::make_unique<Impl>();
  const Deadline deadline = Deadline::after(patience);
  impl_->fd = connect_to(address, deadline);
  SP_CHECK_EQ(fd_to_close_in_children.exchange(impl_->fd), -1);  // one client a process
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, close_in_child);
  say_hello(impl_->fd, token, rank, "control");
  const auto watch = [this](bool ends_with_host) {
    impl_->watcher =
        std::thread([impl = impl_.get(), ends_with_host] { impl->watch(ends_with_host); });
  };
  if (host == ControlHost::rank) {
    watch(false);
    return;
  }
  const int output = connect_to(address, deadline);
  say_hello(output, token, rank, "output");
  std::fflush(stdout);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a rank that is killed has printed its lines
  watch(true);
}

ControlClient::~ControlClient() {
  if (!impl_) return;
  std::fflush(stdout);
  impl_->closing = true;
  shutdown(impl_->fd, SHUT_RDWR);
  if (impl_->watcher.joinable()) impl_->watcher.join();
  fd_to_close_in_children = -1;
  close(impl_->fd);
}

void ControlClient::at(std::int64_t step, const std::string& phase) {
  if (impl_) impl_->write({{"kind", "at"}, {"step", step}, {"phase", phase}});
}

void ControlClient::error(const std::string& text) {
  if (impl_) impl_->write({{"kind", "error"}, {"text", text}});
}

void ControlClient::answer(Answers answers) {
  if (!impl_) return;
  const std::lock_guard lock(impl_->answers_mutex);
  impl_->answers = std::move(answers);
}

std::optional<FlightRecords> ControlClient::look(Deadline deadline) {
  if (!impl_) return std::nullopt;
  std::unique_lock lock(impl_->looked_mutex);
  impl_->looked.reset();
  impl_->write({{"kind", "look"}});
  wait_under(impl_->has_looked, lock, deadline, [this] { return impl_->looked.has_value(); });
  return std::exchange(impl_->looked, std::nullopt);
}

void ControlClient::verdict(const Error& error) {
  if (impl_) impl_->write({{"kind", "verdict"}, {"error", error_to_text(error)}});
}

void ControlClient::done(int exit_code) {
  if (!impl_) return;
  impl_->exit_code = exit_code;
  impl_->last_records();
  impl_->write({{"kind", "done"}, {"exit_code", exit_code}});
}

}  // namespace shardproof
