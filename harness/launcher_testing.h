// launcher_testing: a rank with every way to end, for tests that launch their own executable again,
// and what they heard of it. The ranks use the control socket but not MPI. For tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>

#include "harness/child.h"
#include "harness/control.h"
#include "harness/launcher.h"

namespace shardproof::launcher_testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline double now() {
  return std::chrono::duration<double>(Clock::real().now()).count();
}

using Variables = std::map<std::string, std::string>;

inline Variables variables_of(char** environment) {
  Variables all;
  for (; *environment != nullptr; ++environment) {
    const std::string text = *environment;
    all[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return all;
}

// ---- the rank ----

inline void say_pid(const std::string& who) {
  std::cout << "pid " << who << " " << getpid() << std::endl;
}

// A process of the rank's own, which would outlive it. Returns when it has said its pid.
inline void start_grandchild() {
  std::array<int, 2> started{};
  if (pipe2(started.data(), O_CLOEXEC) != 0) std::abort();
  if (fork() == 0) {
    say_pid("grandchild");
    if (write(started[1], "s", 1) != 1) std::abort();
    for (;;) pause();
  }
  char byte = 0;
  if (read(started[0], &byte, 1) != 1) std::abort();
}

// Until the launcher has heard all that the others said before they came here.
inline void await_others(ControlClient& control, int ranks) {
  RankRecords here;
  here.pulses = 1;
  control.answer({.records = [here] { return here; }});
  const auto came = [](const RankRecords& rank) { return rank.pulses == 1; };
  for (const Deadline end = Deadline::after(seconds(60)); !end.expired();) {
    const auto looked = control.look(end);
    if (looked && std::count_if(looked->ranks.begin(), looked->ranks.end(), came) == ranks) return;
  }
  std::abort();
}

inline int rank_main(const std::string& mode, Variables variables) {
  const int rank = std::stoi(variables["OMPI_COMM_WORLD_RANK"]);
  if (mode == "early") return 7;
  ControlClient control(variables["SHARDPROOF_CONTROL"], variables["SHARDPROOF_CONTROL_TOKEN"],
                        rank);
  say_pid("rank");
  if (mode == "ok") {
    std::cout << "hello from " << rank << " with " << variables["GREETING"] << " and "
              << variables["OMP_NUM_THREADS"] << " thread\n";
    std::cerr << "to stderr" << std::endl;
    std::cout << "no newline at the end" << std::flush;
    control.at(0, "forward");
  } else if (mode == "exit3" && rank == 1) {
    control.error("the config is wrong");
    control.done(3);
    return 3;
  } else if (mode == "exit3" || mode == "hang" || mode == "stubborn") {
    if (mode == "stubborn") signal(SIGTERM, SIG_IGN);
    start_grandchild();
    for (;;) pause();
  } else if (mode == "kill") {
    start_grandchild();
    control.at(12, "optimizer");
    control.at(13, "backward");
    if (rank == 2) {
      std::cout << "killed at " << std::to_string(now()) << std::endl;
      raise(SIGKILL);
    }
    for (;;) pause();
  } else if (mode == "kill_last") {
    control.at(13, "backward");
    await_others(control, 4);
    if (rank == 2) raise(SIGKILL);
    for (;;) pause();
  } else if (mode == "stop" && rank == 1) {
    control.at(3, "forward");
    raise(SIGSTOP);
    for (;;) pause();
  } else if (mode == "stop" && rank == 0) {
    // Fails as one that waits for it does, once the launcher has seen it.
    for (const Deadline end = Deadline::after(seconds(30)); !end.expired(); poll(nullptr, 0, 20)) {
      std::ifstream events(variables["EVENTS"]);
      for (std::string line; std::getline(events, line);) {
        if (line.find("\"stopped\"") == std::string::npos) continue;
        control.error("waited too long");
        control.done(1);
        return 1;
      }
    }
  } else if (mode == "stop") {
    for (;;) pause();
  } else if (mode == "deserts") {
    return 0;  // without done
  }
  control.done(0);
  return 0;
}

// ---- the launcher, and what it heard ----

struct Heard {
  std::vector<std::pair<int, std::string>> lines;
  std::set<pid_t> pids;
  double killed_at = 0;

  void take(int rank, const std::string& line) {
    lines.emplace_back(rank, line);
    const std::size_t space = line.rfind(' ');
    if (line.starts_with("pid ")) pids.insert(std::stoi(line.substr(space)));
    if (line.starts_with("killed at ")) killed_at = std::stod(line.substr(space));
  }
  bool has(int rank, const std::string& line) const {
    return std::count(lines.begin(), lines.end(), std::pair(rank, line)) == 1;
  }
  std::string text() const {
    std::string all;
    for (const auto& [rank, line] : lines) all += std::to_string(rank) + ": " + line + "\n";
    return all;
  }
};

inline LaunchRequest request_for(const std::string& mode, Heard& heard) {
  LaunchRequest request;
  request.ranks = 4;
  request.command = {own_executable(), "--rank", mode};
  request.deadline = seconds(60);
  request.grace = milliseconds(200);
  request.on_output = [&heard](int rank, const std::string& line) { heard.take(rank, line); };
  return request;
}

// Zombies of others count as gone: they run no code.
inline bool is_alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  return line.at(line.rfind(')') + 2) != 'Z';
}

inline void expect_gone(const std::set<pid_t>& pids, Duration patience = {}) {
  const Deadline deadline = Deadline::after(patience);
  for (const pid_t pid : pids) {
    while (is_alive(pid) && !deadline.expired()) poll(nullptr, 0, 5);
    EXPECT_FALSE(is_alive(pid)) << pid;
  }
}

}  // namespace shardproof::launcher_testing
