// control_server: the end of the control sockets at their host (the launcher, or rank 0): one
// connection of each rank for lines of JSON, whose end of file without `done` is the rank's death,
// and one for its output. A connection that does not show the token within its first line is
// closed. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace shardproof {

struct ControlEvent {
  // closed: of the control connection; look, records, verdict: see looks.h
  enum class Kind { hello, at, error, done, output, closed, look, records, verdict };
  Kind kind = Kind::hello;
  int rank = -1;
  // error, verdict, output (a line without its end); of `at`: the phase; of `records`: the line
  std::string text{};
  std::int64_t step = 0;  // at
  int exit_code = 0;      // done
  std::int64_t pid = 0;   // hello, on the rank's machine; 0: not said
};

class ControlServer {
 public:
  // Listens on the loopback interface, or on all of them.
  ControlServer(int ranks, bool all_interfaces);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;

  const std::string& address() const { return address_; }  // as ControlClient takes it
  const std::string& token() const { return token_; }
  int fd() const { return epoll_; }  // readable when take() has something to do

  std::vector<ControlEvent> take();  // what has arrived; does not wait
  bool silent() const;               // no connection is open
  // A line of JSON to a rank's control connection. One that does not take it is left out: it will
  // be found silent.
  void send(int rank, const std::string& line);

 private:
  struct Connection {
    int rank = -1;  // -1: has not said hello
    bool output = false;
    std::string unread{};  // an unfinished line
  };
  void accept_all();
  void read_from(int fd, std::vector<ControlEvent>& events);
  bool hello(Connection& connection, const std::string& line, std::vector<ControlEvent>& events);
  void take_line(Connection& connection, const std::string& line,
                 std::vector<ControlEvent>& events);
  void close_connection(int fd, std::vector<ControlEvent>& events);

  const int ranks_;
  const std::string token_;
  std::string address_;
  int listener_ = -1;
  int epoll_ = -1;
  std::map<int, Connection> connections_;
};

}  // namespace shardproof
