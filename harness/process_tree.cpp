// process_tree: between fork and exec, and in the watcher (a fork of a process that may have
// threads), only system calls are made: nothing there allocates, locks or throws.
#include "harness/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "harness/exec_arguments.h"

namespace shardproof {

namespace {

constexpr int cannot_start = 127;

struct Ends {
  int read = -1;
  int write = -1;
};

Ends make_pipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::environment, "process tree", std::strerror(errno));
  }
  return {fds[0], fds[1]};
}

Ends make_socket_pair() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    throw Error(ErrorKind::environment, "process tree", std::strerror(errno));
  }
  return {fds[0], fds[1]};
}

// ---- in the watcher: system calls only ----

// The parent of a process, from the fourth field of /proc/PID/stat; -1 when it is gone.
int parent_of(const char* pid) {
  std::array<char, 64> path{};
  char* end = stpcpy(path.data(), "/proc/");
  end = stpcpy(end, pid);
  stpcpy(end, "/stat");
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  std::array<char, 512> text{};
  const ssize_t size = read(fd, text.data(), text.size() - 1);
  close(fd);
  const char* name_end = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
  if (name_end == nullptr || name_end[1] == '\0' || name_end[2] == '\0') return -1;
  int parent = 0;
  for (const char* digit = name_end + 4; *digit >= '0' && *digit <= '9'; ++digit) {
    parent = parent * 10 + (*digit - '0');
  }
  return parent;
}

int to_number(const char* text) {
  int number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + (*text - '0');
  return *text == '\0' ? number : -1;
}

// Kills the children of this process; theirs become ours when they die.
void kill_children() {
  const int self = getpid();
  const int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return;
  alignas(long) std::array<char, 8192> entries;
  long size = 0;
  while ((size = syscall(SYS_getdents64, proc, entries.data(), entries.size())) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      const int pid = to_number(entry->d_name);
      if (pid > 1 && parent_of(entry->d_name) == self) kill(pid, SIGKILL);
    }
  }
  close(proc);
}

constexpr int orders_in = 3, status_out = 4;  // where the watcher keeps its pipes

// What the watcher tells: the exit code of the program, or that one more process was killed.
struct Told {
  enum What : int { program_ended, killed } what;
  int exit_code = 0;
};

void tell(const Told& told) {
  [[maybe_unused]] const ssize_t written = write(status_out, &told, sizeof told);
}

// Reaps what has ended. False when no child is left.
bool reap(pid_t program, bool killing, bool& program_ended) {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0) return errno == EINTR;
    if (killing && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) tell({Told::killed});
    if (pid != program) continue;
    program_ended = true;
    tell({Told::program_ended, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)});
  }
}

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

[[noreturn]] void watch(pid_t program, int child_signals, std::int64_t grace) {
  bool killing = false;
  bool program_ended = false;
  std::int64_t patience = 0;  // until when what the program left behind may live
  for (;;) {
    std::array<pollfd, 2> ready{{{.fd = killing ? -1 : orders_in, .events = POLLIN, .revents = 0},
                                 {.fd = child_signals, .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), killing || program_ended ? 5 : -1);
    if (ready[1].revents != 0) {
      signalfd_siginfo info;
      while (read(child_signals, &info, sizeof info) > 0) {
      }
    }
    if (ready[0].revents != 0) {
      char order = 'k';
      if (read(orders_in, &order, 1) <= 0) order = 'k';  // the launcher is gone
      if (order == 't' && !program_ended) kill(program, SIGTERM);
      if (order == 'k') killing = true;
    }
    const bool had_ended = program_ended;
    if (!reap(program, killing, program_ended)) _exit(0);
    if (program_ended && !had_ended) patience = milliseconds_now() + grace;
    killing = killing || (program_ended && milliseconds_now() >= patience);
    if (killing) kill_children();
  }
}

struct Start {
  char* const* arguments;
  char* const* environment;
  int output;
  int orders;
  int status;
  std::int64_t grace;  // in milliseconds
};

[[noreturn]] void run_program(const Start& start, const sigset_t& signals, pid_t watcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != watcher) _exit(cannot_start);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(start.output, STDOUT_FILENO);
  dup2(start.output, STDERR_FILENO);
  execve(start.arguments[0], start.arguments, start.environment);
  _exit(cannot_start);
}

[[noreturn]] void run_watcher(const Start& start) {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t children, none;
  sigemptyset(&none);
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_SETMASK, &children, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  const pid_t self = getpid();
  const pid_t program = fork();
  if (program == 0) run_program(start, none, self);
  // Nothing of the launcher's stays open here, so that its end of a pipe is the only one.
  const int orders = fcntl(start.orders, F_DUPFD, 10);
  const int status = fcntl(start.status, F_DUPFD, 10);
  dup2(orders, orders_in);
  dup2(status, status_out);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
  syscall(SYS_close_range, status_out + 1, ~0U, 0);
  const int child_signals = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
  if (program < 0 || child_signals < 0) _exit(1);
  watch(program, child_signals, start.grace);
}

}  // namespace

ProcessTree::ProcessTree(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment,
                         std::chrono::milliseconds grace) {
  SP_CHECK(!command.empty(), "no command");
  if (access(command[0].c_str(), X_OK) != 0) {
    throw Error(ErrorKind::environment, command[0], std::strerror(errno));
  }
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = merged_environment(environment);
  const std::vector<char*> argument_pointers = exec_pointers(arguments);
  const std::vector<char*> variable_pointers = exec_pointers(variables);
  const Ends output = make_pipe();
  const Ends orders = make_socket_pair();  // not a pipe: see order()
  const Ends status = make_pipe();
  const Start start{argument_pointers.data(),
                    variable_pointers.data(),
                    output.write,
                    orders.read,
                    status.write,
                    grace.count()};
  watcher_ = fork();
  if (watcher_ == 0) run_watcher(start);
  for (const int fd : {output.write, orders.read, status.write}) close(fd);
  output_ = output.read;
  orders_ = orders.write;
  status_ = status.read;
  fcntl(output_, F_SETFL, O_NONBLOCK);
  fcntl(status_, F_SETFL, O_NONBLOCK);
  if (watcher_ < 0) {
    for (const int fd : {output_, orders_, status_}) close(fd);
    throw Error(ErrorKind::environment, command[0], "cannot fork");
  }
}

ProcessTree::~ProcessTree() {
  close(orders_);  // which is an order to kill
  pollfd end{.fd = status_, .events = POLLIN, .revents = 0};
  const Deadline deadline = Deadline::after(std::chrono::seconds(10));
  while (!ended() && !deadline.expired()) poll(&end, 1, 100);
  if (!ended_) {  // something cannot be killed (it sleeps in the kernel)
    kill(watcher_, SIGKILL);
    waitpid(watcher_, nullptr, 0);
  }
  close(output_);
  close(status_);
}

void ProcessTree::order(char what) {
  // The watcher may have ended a moment ago: that is no SIGPIPE for this process.
  if (!ended_) [[maybe_unused]]
    const ssize_t sent = send(orders_, &what, 1, MSG_NOSIGNAL);
}

void ProcessTree::ask_to_end() {
  order('t');
}

void ProcessTree::kill_all() {
  order('k');
}

bool ProcessTree::ended() {
  while (!ended_) {
    Told told{};
    const ssize_t count = read(status_, &told, sizeof told);
    if (count < 0) return false;
    if (count == 0) {
      waitpid(watcher_, nullptr, 0);
      ended_ = true;
    } else if (told.what == Told::killed) {
      ++killed_;
    } else {
      exit_code_ = told.exit_code;
    }
  }
  return true;
}

}  // namespace shardproof
