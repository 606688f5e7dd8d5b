// child: fork, exec, poll the pipe until end of file or the deadline.
#include "harness/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/error.h"
#include "harness/exec_arguments.h"

namespace shardproof {
namespace {

// Reads until end of file; false when the deadline came first.
bool read_all(int fd, Deadline deadline, std::string& output) {
  char buffer[4096];
  while (!deadline.expired()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    pollfd ready{fd, POLLIN, 0};
    const int wait = static_cast<int>(std::clamp<long long>(left.count() + 1, 1, 1000));
    if (::poll(&ready, 1, wait) <= 0) continue;
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) output.append(buffer, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) return true;
  }
  return false;
}

[[noreturn]] void become(std::vector<char*>& arguments, std::vector<char*>& environment, int out,
                         int failure, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before that
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  const int input = ::open("/dev/null", O_RDONLY);
  ::dup2(input, STDIN_FILENO);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

// A child may close its output and live on: its end is waited for within the deadline as well.
bool ended_in_time(pid_t pid, Deadline deadline) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return false;
  bool ended = false;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    pollfd exited{fd, POLLIN, 0};
    ended = ::poll(&exited, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 1000))) > 0;
  } while (!ended && !deadline.expired());
  ::close(fd);
  return ended;
}

int wait_status(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

struct Started {
  pid_t pid = -1;
  int out = -1;  // its stdout and stderr
};

Started start(const std::vector<std::string>& command,
              const std::map<std::string, std::string>& environment) {
  auto arguments = command;
  auto variables = merged_environment(environment);
  auto argv = exec_pointers(arguments);
  auto envp = exec_pointers(variables);
  int out[2], failure[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(failure, O_CLOEXEC) != 0)
    throw Error(ErrorKind::environment, command[0], std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(argv, envp, out[1], failure[1], parent);
  ::close(out[1]);
  ::close(failure[1]);
  int reason = 0;
  const bool failed = pid < 0 || ::read(failure[0], &reason, sizeof reason) == sizeof reason;
  ::close(failure[0]);
  if (!failed) return {pid, out[0]};
  ::close(out[0]);
  if (pid > 0) wait_status(pid);
  throw Error(ErrorKind::environment, command[0],
              std::string("cannot be started: ") + std::strerror(reason ? reason : EAGAIN));
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& command, Duration deadline,
                      const std::map<std::string, std::string>& environment) {
  const Started started = start(command, environment);
  ChildResult result;
  const auto end = Deadline::after(deadline);
  result.timed_out = !read_all(started.out, end, result.output) || !ended_in_time(started.pid, end);
  if (result.timed_out) ::kill(-started.pid, SIGKILL);
  ::close(started.out);
  result.exit_code = wait_status(started.pid);
  return result;
}

Child::Child(const std::vector<std::string>& command, Duration deadline,
             const std::map<std::string, std::string>& environment)
    : deadline_(Deadline::after(deadline)) {
  const Started started = start(command, environment);
  pid_ = started.pid;
  out_ = started.out;
  ::fcntl(out_, F_SETFL, O_NONBLOCK);
  exited_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

Child::~Child() {
  if (!ended_) {
    ::kill(-pid_, SIGKILL);
    wait_status(pid_);
  }
  if (out_ >= 0) ::close(out_);
  if (exited_ >= 0) ::close(exited_);
}

void Child::read_some() {
  char buffer[4096];
  while (out_ >= 0) {
    const ssize_t got = ::read(out_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      ::close(out_);
      out_ = -1;
      return;
    }
    result_.output.append(buffer, static_cast<std::size_t>(got));
  }
}

bool Child::ended(Duration wait) {
  const Deadline until = Deadline::after(std::min(wait, deadline_.left()));
  for (bool first = true; !ended_; first = false) {
    read_some();
    int status = 0;
    // Its output may outlive it, and it its output: both must have ended.
    if (out_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
      result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      ended_ = true;
    } else if (deadline_.expired()) {
      result_.timed_out = true;
      ::kill(-pid_, SIGKILL);
      result_.exit_code = wait_status(pid_);
      ended_ = true;
    } else if (!first && until.expired()) {
      break;
    } else {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until.left());
      pollfd ready{out_ >= 0 ? out_ : exited_, POLLIN, 0};
      ::poll(&ready, 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 1000)));
    }
  }
  return ended_;
}

const ChildResult& Child::result() const {
  SP_CHECK(ended_, "a child that has not ended");
  return result_;
}

std::string own_executable() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace shardproof
