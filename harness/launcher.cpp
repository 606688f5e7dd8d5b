// launcher: one loop over sockets, mpirun and signals, and what is done when something fails.
#include "harness/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <deque>

#include "base/error.h"
#include "harness/control_server.h"
#include "harness/looks.h"
#include "harness/mpirun_command.h"
#include "harness/process_state.h"
#include "harness/process_tree.h"
#include "harness/say.h"
#include "trace/writer.h"

namespace shardproof {

namespace {

constexpr Duration time_after_asking = std::chrono::seconds(2);    // between SIGTERM and SIGKILL
constexpr Duration time_after_killing = std::chrono::seconds(10);  // then something is wrong

// Turns SIGINT, SIGTERM and SIGHUP (unless it is ignored: nohup) into bytes of a pipe while it
// exists.
class Signals {
 public:
  Signals() {
    if (pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw Error(ErrorKind::environment, "launch", "no pipe");
    }
    write_end = pipe_[1];
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int saved = errno;
      [[maybe_unused]] const ssize_t written = write(write_end, "s", 1);
      errno = saved;
    };
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      sigaction(numbers[i], nullptr, &old_[i]);
      const bool unheard = numbers[i] == SIGHUP && old_[i].sa_handler == SIG_IGN;
      if (!unheard) sigaction(numbers[i], &action, nullptr);
    }
  }
  ~Signals() {
    for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &old_[i], nullptr);
    for (const int fd : pipe_) close(fd);
  }
  Signals(const Signals&) = delete;

  int fd() const { return pipe_[0]; }
  bool take() const {
    char byte = 0;
    return read(pipe_[0], &byte, 1) == 1;
  }

 private:
  static constexpr std::array<int, 3> numbers{SIGINT, SIGTERM, SIGHUP};
  static inline volatile int write_end = -1;
  std::array<int, 2> pipe_{};
  std::array<struct sigaction, 3> old_{};
};

class Launch {
 public:
  explicit Launch(const LaunchRequest& request)
      : request_(checked_request(request)),
        server_(request_.ranks, !request_.hostfile.empty()),
        deadline_(Deadline::after(request_.deadline)),
        connect_deadline_(Deadline::after(request_.connect_deadline)),
        places_(request_.ranks),
        looks_(request_.ranks, server_,
               [this](int rank) { return stopped_.is_stopped_now(rank); }) {
    result_.ranks.resize(static_cast<std::size_t>(request_.ranks));
    result_.outlives_deaths = request_.outlives_deaths;
  }

  LaunchResult run();

 private:
  // What is done about it: nothing, the others may end, mpirun was asked, everything was killed.
  enum class Stage { running, grace, asked, killed };

  void wait(ProcessTree& tree, const Signals& signals);
  void take(const ControlEvent& event);
  void take_death(int rank);
  void await_survivors();
  void know(Failure failure);
  void look_for_stopped();
  void take_mpirun_output(const ProcessTree& tree);
  void print(int rank, const std::string& line);
  void escalate(ProcessTree& tree, const Signals& signals);
  void enter(Stage stage, Duration time);
  void finish(const ProcessTree& tree);
  void record(Json event);
  double seconds() const {
    return std::chrono::duration<double>(Clock::real().now() - begin_).count();
  }
  bool all(bool RankEnd::*flag) const {
    return std::all_of(result_.ranks.begin(), result_.ranks.end(),
                       [flag](const RankEnd& rank) { return rank.*flag; });
  }
  bool all_have_ended() const {
    return std::all_of(result_.ranks.begin(), result_.ranks.end(),
                       [](const RankEnd& rank) { return rank.finished || rank.died; });
  }

  const LaunchRequest request_;
  ControlServer server_;
  const Duration begin_ = Clock::real().now();
  const Deadline deadline_;
  const Deadline connect_deadline_;
  Stage stage_ = Stage::running;
  Deadline stage_end_ = Deadline::never();
  Deadline sign_by_ = Deadline::never();  // of those that outlive a death
  LastPlaces places_;
  StoppedRanks stopped_;  // of this machine
  Looks looks_;
  std::string unread_;                   // of mpirun
  std::deque<std::string> mpirun_said_;  // its last lines
  LaunchResult result_;
};

LaunchResult Launch::run() {
  const Environment variables = rank_environment(request_, server_.address(), server_.token());
  record({{"kind", "start"}, {"ranks", request_.ranks}, {"command", request_.command}});
  const Signals signals;
  ProcessTree tree(mpirun_command(request_, variables), mpirun_environment(variables));
  while (!tree.ended()) {
    wait(tree, signals);
    escalate(tree, signals);
  }
  // What the ranks wrote last is still in their sockets.
  const Deadline drained = Deadline::after(std::chrono::seconds(1));
  while (!server_.silent() && !drained.expired()) wait(tree, signals);
  take_mpirun_output(tree);
  finish(tree);
  return result_;
}

void Launch::wait(ProcessTree& tree, const Signals& signals) {
  std::array<pollfd, 4> ready{};
  ready[0] = {.fd = server_.fd(), .events = POLLIN, .revents = 0};
  ready[1] = {.fd = tree.output(), .events = POLLIN, .revents = 0};
  ready[2] = {.fd = signals.fd(), .events = POLLIN, .revents = 0};
  ready[3] = {.fd = tree.fd(), .events = POLLIN, .revents = 0};
  // An end of file is always readable: do not look at what has none but that.
  const std::size_t watched = tree.ended() ? 1 : ready.size();
  poll(ready.data(), watched, 20);
  look_for_stopped();
  for (const ControlEvent& event : server_.take()) take(event);
  looks_.tick();
  take_mpirun_output(tree);
}

void Launch::take(const ControlEvent& event) {
  looks_.take(event);
  RankEnd& rank = result_.ranks[static_cast<std::size_t>(event.rank)];
  switch (event.kind) {
    case ControlEvent::Kind::hello:
      rank.connected = true;
      places_.hear(event.rank, seconds());
      if (request_.hostfile.empty()) stopped_.watch(event.rank, static_cast<pid_t>(event.pid));
      break;
    case ControlEvent::Kind::at:
      places_.take(event, seconds());
      sign_by_ = Deadline::never();
      break;
    case ControlEvent::Kind::error:
      rank.error = event.text;
      break;
    case ControlEvent::Kind::done:
      rank.finished = true;
      rank.exit_code = event.exit_code;
      stopped_.forget(event.rank);
      if (event.exit_code == 0) break;
      know({.kind = Failure::Kind::failed, .rank = event.rank, .place = "", .text = rank.error});
      // What one that is stopped did not do is why this one failed.
      if (const auto stopped = stopped_.first()) take_death(*stopped);
      enter(Stage::grace, request_.grace);
      break;
    case ControlEvent::Kind::output:
      print(event.rank, event.text);
      break;
    case ControlEvent::Kind::closed:
      if (rank.finished) break;
      rank.died = true;
      take_death(event.rank);
      break;
    case ControlEvent::Kind::verdict:
      if (!result_.hang.empty()) break;
      result_.hang = event.text;
      know({.kind = Failure::Kind::hang,
            .rank = event.rank,
            .place = "",
            .text = event.text,
            .seconds = 0,
            .silent_seconds = seconds() - places_.last_heard()});
      record(
          {{"kind", "hang"}, {"rank", event.rank}, {"seconds", seconds()}, {"error", event.text}});
      break;
    case ControlEvent::Kind::look:
    case ControlEvent::Kind::records:
      break;
  }
}

void Launch::take_death(int rank) {
  if (stage_ >= Stage::asked) return;  // our own doing
  if (result_.first_death) {
    if (!request_.outlives_deaths) return;  // a consequence
    record(places_.death_event(rank, seconds()));
    return await_survivors();
  }
  const double noticed = seconds();
  Json event = places_.death_event(rank, noticed);
  result_.first_death = places_.death(rank, noticed);
  result_.first_death->stopped = stopped_.is_stopped(rank);
  if (result_.first_death->stopped) event["stopped"] = true;
  record(std::move(event));
  know({.kind = Failure::Kind::death,
        .rank = rank,
        .place = result_.first_death->place,
        .text = result_.first_death->stopped ? "is stopped (SIGSTOP)" : "died",
        .seconds = 0,
        .silent_seconds = result_.first_death->silent_seconds});
  await_survivors();
}

void Launch::await_survivors() {
  const bool nobody = all_have_ended();
  if (!request_.outlives_deaths || nobody) return enter(Stage::grace, request_.grace);
  sign_by_ = Deadline::after(request_.patience);
}

void Launch::know(Failure failure) {
  if (result_.first_failure || stage_ >= Stage::asked) return;
  failure.seconds = seconds();
  result_.first_failure = failure;
  if (request_.on_failure) request_.on_failure(failure);
}

void Launch::look_for_stopped() {
  for (const int rank : stopped_.look()) {
    record({{"kind", "stopped"}, {"rank", rank}, {"seconds", seconds()}});
  }
}

void Launch::take_mpirun_output(const ProcessTree& tree) {
  std::array<char, 4096> bytes;
  ssize_t count = 0;
  while ((count = read(tree.output(), bytes.data(), bytes.size())) > 0) {
    unread_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (count == 0 && !unread_.empty() && unread_.back() != '\n') unread_ += '\n';
  std::size_t begin = 0;
  for (std::size_t end; (end = unread_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    print(-1, unread_.substr(begin, end - begin));
  }
  unread_.erase(0, begin);
}

void Launch::print(int rank, const std::string& line) {
  if (rank < 0) {
    mpirun_said_.push_back(line);
    if (mpirun_said_.size() > 20) mpirun_said_.pop_front();
  }
  if (request_.on_output) return request_.on_output(rank, line);
  say("[" + (rank < 0 ? "mpirun" : std::to_string(rank)) + "] " + line + "\n");
}

void Launch::enter(Stage stage, Duration time) {
  if (stage <= stage_) return;
  stage_ = stage;
  stage_end_ = Deadline::after(time);
}

void Launch::escalate(ProcessTree& tree, const Signals& signals) {
  if (signals.take()) {
    if (!result_.interrupted) record({{"kind", "interrupted"}, {"seconds", seconds()}});
    const bool again = result_.interrupted;
    result_.interrupted = true;
    if (again) stage_end_ = Deadline::after({});
    if (stage_ < Stage::asked) tree.ask_to_end();
    enter(Stage::asked, time_after_asking);
  }
  const bool unconnected = connect_deadline_.expired() && !all(&RankEnd::connected);
  if (stage_ < Stage::asked && (deadline_.expired() || unconnected)) {
    result_.timed_out = true;
    record({{"kind", "deadline"}, {"seconds", seconds()}});
    for (RankEnd& rank : result_.ranks) {
      if (!rank.connected && rank.error.empty()) rank.error = "did not connect to the launcher";
    }
    tree.ask_to_end();
    enter(Stage::asked, time_after_asking);
  }
  if (stage_ == Stage::running && all_have_ended()) enter(Stage::grace, request_.grace);
  if (sign_by_.expired()) enter(Stage::grace, request_.grace);
  if (!stage_end_.expired()) return;
  if (stage_ == Stage::grace) {
    tree.ask_to_end();
    enter(Stage::asked, time_after_asking);
  } else if (stage_ == Stage::asked) {
    tree.kill_all();
    enter(Stage::killed, time_after_killing);
  } else if (stage_ == Stage::killed) {
    throw Error(ErrorKind::environment, "launch", "a process cannot be killed");
  }
}

void Launch::finish(const ProcessTree& tree) {
  result_.seconds = seconds();
  const bool none_connected = std::none_of(result_.ranks.begin(), result_.ranks.end(),
                                           [](const RankEnd& rank) { return rank.connected; });
  if (none_connected && !result_.timed_out && !result_.interrupted) {
    std::string said;
    for (const std::string& line : mpirun_said_) said += "\n  " + line;
    throw Error(ErrorKind::environment, request_.mpirun,
                "ended with code " + std::to_string(tree.exit_code().value_or(-1)) +
                    " before a rank connected; it said:" + said);
  }
  for (int r = 0; r < request_.ranks; ++r) {
    const RankEnd& rank = result_.ranks[static_cast<std::size_t>(r)];
    Json event{{"kind", "exit"}, {"rank", r}, {"finished", rank.finished}};
    if (rank.exit_code) event["code"] = *rank.exit_code;
    if (!rank.error.empty()) event["error"] = rank.error;
    record(event);
  }
}

void Launch::record(Json event) {
  if (!request_.trace_directory.empty()) append_harness_event(request_.trace_directory, event);
}

}  // namespace

bool LaunchResult::ok() const {
  const auto well = [](const RankEnd& rank) { return rank.finished && rank.exit_code == 0; };
  const auto tolerable = [&](const RankEnd& rank) {
    return well(rank) || (outlives_deaths && rank.died);
  };
  return !timed_out && !interrupted && std::any_of(ranks.begin(), ranks.end(), well) &&
         std::all_of(ranks.begin(), ranks.end(), tolerable);
}

LaunchResult launch(const LaunchRequest& request) {
  return Launch(request).run();
}

}  // namespace shardproof
