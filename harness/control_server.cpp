// control_server: non-blocking sockets under one epoll descriptor.
#include "harness/control_server.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace shardproof {

namespace {

// A line longer than this is no line of ours (of output: it is cut).
constexpr std::size_t longest_line = std::size_t{1} << 20;

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  SP_CHECK_EQ(getrandom(bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::environment, "control socket", what + ": " + std::strerror(errno));
}

// "10.0.0.1:5000,192.168.1.2:5000": every address of this machine but loopback.
std::string reachable_addresses(const std::string& port) {
  std::string text;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) fail("getifaddrs");
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
        (each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    std::array<char, INET_ADDRSTRLEN> host{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, host.data(), host.size());
    text += std::string(host.data()) + ":" + port + ",";
  }
  freeifaddrs(all);
  return text + "127.0.0.1:" + port;
}

}  // namespace

ControlServer::ControlServer(int ranks, bool all_interfaces)
    : ranks_(ranks), token_(random_token()) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (epoll_ < 0 || listener_ < 0) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(all_interfaces ? INADDR_ANY : INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, generic, length) != 0 || listen(listener_, 2 * ranks + 8) != 0 ||
      getsockname(listener_, generic, &length) != 0) {
    fail("listen");
  }
  const std::string port = std::to_string(ntohs(address.sin_port));
  address_ = all_interfaces ? reachable_addresses(port) : "127.0.0.1:" + port;
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener_}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &event) != 0) fail("epoll_ctl");
}

ControlServer::~ControlServer() {
  for (const auto& [fd, connection] : connections_) close(fd);
  close(listener_);
  close(epoll_);
}

bool ControlServer::silent() const {
  return connections_.empty();
}

std::vector<ControlEvent> ControlServer::take() {
  std::vector<ControlEvent> events;
  std::array<epoll_event, 64> ready{};
  const int count = epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    if (fd == listener_) {
      accept_all();
    } else {
      read_from(fd, events);
    }
  }
  return events;
}

void ControlServer::accept_all() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
    connections_[fd];
  }
}

void ControlServer::read_from(int fd, std::vector<ControlEvent>& events) {
  std::array<char, 65536> bytes;
  const ssize_t count = recv(fd, bytes.data(), bytes.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return close_connection(fd, events);
  Connection& connection = connections_.at(fd);
  connection.unread.append(bytes.data(), static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end; (end = connection.unread.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = connection.unread.substr(begin, end - begin);
    if (connection.rank < 0) {
      if (!hello(connection, line, events)) return close_connection(fd, events);
    } else {
      take_line(connection, line, events);
    }
  }
  connection.unread.erase(0, begin);
  if (connection.unread.size() < longest_line) return;
  if (!connection.output) return close_connection(fd, events);
  take_line(connection, connection.unread, events);
  connection.unread.clear();
}

bool ControlServer::hello(Connection& connection, const std::string& line,
                          std::vector<ControlEvent>& events) {
  std::int64_t pid = 0;
  try {
    const Json hello = parse_json(line, "control socket");
    if (hello.contains("pid")) pid = integer_member(hello, "pid", "hello");
    const std::int64_t rank = integer_member(hello, "rank", "hello");
    if (string_member(hello, "token", "hello") != token_ || rank < 0 || rank >= ranks_) {
      return false;
    }
    connection.output = string_member(hello, "stream", "hello") == "output";
    connection.rank = static_cast<int>(rank);
  } catch (const Error&) {
    return false;
  }
  if (!connection.output) {
    events.push_back({.kind = ControlEvent::Kind::hello, .rank = connection.rank, .pid = pid});
  }
  return true;
}

void ControlServer::take_line(Connection& connection, const std::string& line,
                              std::vector<ControlEvent>& events) {
  ControlEvent event{.rank = connection.rank};
  if (connection.output) {
    event.kind = ControlEvent::Kind::output;
    event.text = line;
    events.push_back(std::move(event));
    return;
  }
  try {
    const Json message = parse_json(line, "control socket");
    const std::string kind = string_member(message, "kind", "control line");
    if (kind == "at") {
      event.kind = ControlEvent::Kind::at;
      event.step = integer_member(message, "step", kind);
      event.text = string_member(message, "phase", kind);
    } else if (kind == "error") {
      event.kind = ControlEvent::Kind::error;
      event.text = string_member(message, "text", kind);
    } else if (kind == "done") {
      event.kind = ControlEvent::Kind::done;
      event.exit_code = static_cast<int>(integer_member(message, "exit_code", kind));
    } else if (kind == "look") {
      event.kind = ControlEvent::Kind::look;
    } else if (kind == "records") {
      event.kind = ControlEvent::Kind::records;
      event.text = line;
    } else if (kind == "verdict") {
      event.kind = ControlEvent::Kind::verdict;
      event.text = string_member(message, "error", kind);
    } else {
      return;  // a newer rank may say more
    }
    events.push_back(std::move(event));
  } catch (const Error&) {  // half a line, from a rank that died while it wrote
  }
}

void ControlServer::send(int rank, const std::string& line) {
  constexpr int patience_ms = 100;
  for (const auto& [fd, connection] : connections_) {
    if (connection.rank != rank || connection.output) continue;
    const std::string text = line + "\n";
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t count =
          ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) {
        sent += static_cast<std::size_t>(count);
        continue;
      }
      pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
      if (errno != EAGAIN || (sent == 0 && poll(&ready, 1, 0) != 1) ||
          poll(&ready, 1, patience_ms) != 1) {
        return;
      }
    }
  }
}

void ControlServer::close_connection(int fd, std::vector<ControlEvent>& events) {
  const Connection connection = std::move(connections_.at(fd));
  connections_.erase(fd);
  close(fd);
  if (connection.rank < 0) return;
  if (!connection.output) {
    events.push_back({.kind = ControlEvent::Kind::closed, .rank = connection.rank});
  } else if (!connection.unread.empty()) {
    events.push_back(
        {.kind = ControlEvent::Kind::output, .rank = connection.rank, .text = connection.unread});
  }
}

}  // namespace shardproof
