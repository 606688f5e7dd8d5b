// ctest: unit
// The server against raw sockets; the client, which takes over stdout and may end its process, as a
// child (this executable again, --client WHAT).
#include "harness/control.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "harness/child.h"
#include "harness/control_server.h"

namespace shardproof {
namespace {

using Kind = ControlEvent::Kind;

int port_of(const ControlServer& server) {
  return std::stoi(server.address().substr(server.address().rfind(':') + 1));
}

// A peer that may say anything.
class RawClient {
 public:
  explicit RawClient(const ControlServer& server) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_of(server)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { close(fd_); }
  void say(const std::string& text) const {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  bool closed_by_server() const {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return poll(&ready, 1, 0) == 1 && recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
  }

 private:
  const int fd_;
};

// Events until `count` of a kind have come, or the deadline.
std::vector<ControlEvent> take_until(ControlServer& server, Kind kind, std::ptrdiff_t count = 1) {
  std::vector<ControlEvent> all;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  const auto is_kind = [kind](const ControlEvent& event) { return event.kind == kind; };
  while (std::count_if(all.begin(), all.end(), is_kind) < count) {
    if (deadline.expired()) {
      ADD_FAILURE() << "the event did not come";
      break;
    }
    pollfd ready{.fd = server.fd(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, 20);
    for (ControlEvent& event : server.take()) all.push_back(std::move(event));
  }
  return all;
}

std::string hello(const ControlServer& server, int rank, const std::string& stream) {
  return R"({"kind":"hello","token":")" + server.token() + R"(","rank":)" + std::to_string(rank) +
         R"(,"stream":")" + stream + "\"}\n";
}

TEST(ControlServer, TakesLinesHoweverTheyAreCut) {
  ControlServer server(2, false);
  auto client = std::make_unique<RawClient>(server);
  const std::string text = hello(server, 1, "control") +
                           "{\"kind\":\"at\",\"step\":3,\"phase\":\"forward\"}\n"
                           "{\"kind\":\"news\"}\nnot json\n"
                           "{\"kind\":\"error\",\"text\":\"a\\nb\"}\n"
                           "{\"kind\":\"done\",\"exit_code\":2}\n";
  for (const char byte : text) client->say(std::string(1, byte));
  const auto events = take_until(server, Kind::done);
  ASSERT_EQ(events.size(), 4u);
  for (const ControlEvent& event : events) EXPECT_EQ(event.rank, 1);
  EXPECT_EQ(events[0].kind, Kind::hello);
  EXPECT_EQ(events[1].kind, Kind::at);
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].text, "forward");
  EXPECT_EQ(events[2].text, "a\nb");
  EXPECT_EQ(events[3].exit_code, 2);
  client.reset();
  EXPECT_EQ(take_until(server, Kind::closed).back().rank, 1);
  EXPECT_TRUE(server.silent());
}

TEST(ControlServer, OutputEndsWithItsLastHalfLine) {
  ControlServer server(1, false);
  auto client = std::make_unique<RawClient>(server);
  client->say(hello(server, 0, "output") + "one\n\nhalf");
  client.reset();
  std::vector<std::string> lines;
  for (const ControlEvent& event : take_until(server, Kind::output, 3)) {
    lines.push_back(event.text);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "half"}));
}

TEST(ControlServer, StrangersAreTurnedAway) {
  ControlServer server(2, false);
  const std::string good = hello(server, 0, "control");
  std::string other = good;
  other[other.find(server.token())] ^= 1;
  for (const std::string& line :
       {other, hello(server, 2, "control"), hello(server, -1, "control"), std::string("{}\n"),
        std::string("GET / HTTP/1.1\n"), std::string(std::size_t{1} << 20, 'x')}) {
    const RawClient client(server);
    std::thread writer([&] { client.say(line); });
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (!client.closed_by_server() && !deadline.expired()) {
      for (const ControlEvent& event : server.take()) ADD_FAILURE() << event.text;
    }
    EXPECT_TRUE(client.closed_by_server()) << line.substr(0, 80);
    writer.join();
  }
}

TEST(ControlServer, AllInterfacesAreListed) {
  const ControlServer server(1, true);
  EXPECT_NE(server.address().find("127.0.0.1:"), std::string::npos);
  EXPECT_NE(server.token(), ControlServer(1, false).token());
}

// ---- the client ----

int client_main(const std::string& what, const std::string& address, const std::string& token) {
  ControlClient control(address, token, 0);
  std::cout << "printed" << std::endl;
  control.at(7, "reduced");
  control.error("quote \" and \xff");
  if (what == "fork" && fork() == 0) {  // keeps stdout open, but not the control connection
    for (;;) pause();
  }
  if (what == "fork") raise(SIGKILL);
  if (what == "wait") {
    for (;;) pause();
  }
  control.done(4);
  return 4;
}

class ClientProcess {
 public:
  ClientProcess(const std::string& what, const ControlServer& server) : pid_(fork()) {
    if (pid_ != 0) return;
    setpgid(0, 0);
    const std::string self = own_executable();
    execl(self.c_str(), self.c_str(), "--client", what.c_str(), server.address().c_str(),
          server.token().c_str(), nullptr);
    _exit(127);
  }
  ~ClientProcess() {
    kill(-pid_, SIGKILL);
    if (!ended_) waitpid(pid_, nullptr, 0);
  }
  int exit_code() {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  const pid_t pid_;
  bool ended_ = false;
};

TEST(ControlClient, SaysWhereItIsAndThatItIsDone) {
  ControlServer server(1, false);
  ClientProcess client("done", server);
  std::vector<ControlEvent> events = take_until(server, Kind::closed);
  while (!server.silent()) {  // the output has a connection of its own
    for (ControlEvent& event : server.take()) events.push_back(std::move(event));
  }
  std::string output;
  std::string phase;
  std::string error;
  std::optional<int> code;
  for (const ControlEvent& event : events) {
    if (event.kind == Kind::output) output += event.text;
    if (event.kind == Kind::at) phase = std::to_string(event.step) + event.text;
    if (event.kind == Kind::error) error = event.text;
    if (event.kind == Kind::done) code = event.exit_code;
  }
  EXPECT_EQ(output, "printed");
  EXPECT_EQ(phase, "7reduced");
  EXPECT_EQ(error, "quote \" and \xef\xbf\xbd");
  EXPECT_EQ(code, 4);
  EXPECT_EQ(client.exit_code(), 4);
}

TEST(ControlClient, EndsItsProcessWhenTheLauncherIsGone) {
  auto server = std::make_unique<ControlServer>(1, false);
  ClientProcess client("wait", *server);
  take_until(*server, Kind::error);
  server.reset();
  EXPECT_EQ(client.exit_code(), 3);
}

TEST(ControlClient, AForkedChildDoesNotHideADeath) {
  ControlServer server(1, false);
  ClientProcess client("fork", server);
  EXPECT_EQ(take_until(server, Kind::closed).back().rank, 0);
  EXPECT_EQ(client.exit_code(), 128 + SIGKILL);
}

TEST(ControlClient, OfARankThatHostsKeepsItsOutputAndOutlivesTheHost) {
  auto server = std::make_unique<ControlServer>(1, false);
  ControlClient control(server->address(), server->token(), 0, ControlHost::rank);
  control.at(2, "forward");
  const auto events = take_until(*server, Kind::at);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::hello);
  EXPECT_EQ(events[1].text, "forward");
  std::cout << "stays here" << std::endl;
  pollfd ready{.fd = server->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ready, 1, 50), 0) << "only control lines travel";
  server.reset();
  for (int step = 3; step < 6; ++step) control.at(step, "forward");
  control.done(0);
}

TEST(ControlClient, WithoutAnAddressNothingHappens) {
  ControlClient control("", "", 0);
  control.at(0, "forward");
  control.error("nobody hears this");
  control.done(0);
}

TEST(ControlClient, BadAddressesAreErrors) {
  const auto kind_of = [](const std::string& address) {
    try {
      ControlClient(address, "", 0, ControlHost::launcher, std::chrono::milliseconds(200));
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::numeric;
  };
  for (const char* address : {"localhost", ":80", "host:", "host:8x", "a:1,,b:2"}) {
    EXPECT_EQ(kind_of(address), ErrorKind::bad_input) << address;
  }
  const int closed_port = port_of(ControlServer(1, false));
  EXPECT_EQ(kind_of("127.0.0.1:" + std::to_string(closed_port)), ErrorKind::environment);
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--client") {
    return shardproof::client_main(argv[2], argv[3], argv[4]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
