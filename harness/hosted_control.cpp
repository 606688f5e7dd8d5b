// hosted_control: who hosts, who hears of it, and the thread that notices a death.
#include "harness/hosted_control.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/error.h"
#include "harness/control_server.h"
#include "harness/last_places.h"
#include "harness/looks.h"
#include "harness/process_state.h"
#include "trace/writer.h"

namespace shardproof {

namespace {

constexpr Duration linger = std::chrono::seconds(2);  // of rank 0, for the others to leave

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    throw Error(ErrorKind::environment, "gethostname", "this machine has no name");
  }
  return name.data();
}

bool on_one_host(Communicator& world) {
  const std::vector<std::string> names = all_gather_text(world, host_name());
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name == names.front(); });
}

}  // namespace

class HostedControl::Server {
 public:
  Server(int ranks, bool all_interfaces, std::string trace_directory)
      : server_(ranks, all_interfaces),
        trace_directory_(std::move(trace_directory)),
        places_(ranks),
        looks_(
            ranks, server_,
            all_interfaces ? std::function<bool(int)>()
                           : [this](int rank) { return stopped_.is_stopped_now(rank); }),
        finished_(static_cast<std::size_t>(ranks), false) {}
  ~Server() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string& address() const { return server_.address(); }
  const std::string& token() const { return server_.token(); }
  // The thread ends after the client of rank 0 has closed.
  void start() {
    thread_ = std::thread([this] { serve(); });
  }

 private:
  void serve() {
    Deadline end = Deadline::never();
    bool leaving = false;
    while (!end.expired() && !(leaving && server_.silent())) {
      pollfd ready{.fd = server_.fd(), .events = POLLIN, .revents = 0};
      poll(&ready, 1, leaving || looks_.under_way() ? 20 : -1);
      looks_.tick();
      for (const ControlEvent& event : server_.take()) {
        looks_.take(event);
        take(event);
        if (event.kind != ControlEvent::Kind::closed || event.rank != 0) continue;
        leaving = true;
        end = Deadline::after(linger);
      }
    }
  }

  void take(const ControlEvent& event) {
    if (event.kind == ControlEvent::Kind::hello) {
      places_.hear(event.rank, seconds());
      stopped_.watch(event.rank, static_cast<pid_t>(event.pid));
    }
    if (event.kind == ControlEvent::Kind::at) places_.take(event, seconds());
    if (event.kind == ControlEvent::Kind::done) {
      finished_[static_cast<std::size_t>(event.rank)] = true;
    }
    if (event.kind == ControlEvent::Kind::closed &&
        !finished_[static_cast<std::size_t>(event.rank)]) {
      take_death(event.rank);
    }
  }

  void take_death(int rank) {
    if (named_) return;  // later ones may follow from the first
    named_ = true;
    const double noticed = seconds();
    const Death death = places_.death(rank, noticed);
    fmt::print(stderr,
               "shardproof: rank {} died at {}; noticed {:.2f} s after its last sign of life\n",
               rank, death.place.empty() ? "no step yet" : death.place, death.silent_seconds);
    if (trace_directory_.empty()) return;
    try {
      append_harness_event(trace_directory_, places_.death_event(rank, noticed));
    } catch (const Error& error) {  // of a thread: nobody above could catch it
      fmt::print(stderr, "shardproof: {}\n", error.what());
    }
  }

  double seconds() const {
    return std::chrono::duration<double>(Clock::real().now() - begin_).count();
  }

  ControlServer server_;
  const std::string trace_directory_;
  const Duration begin_ = Clock::real().now();
  LastPlaces places_;
  StoppedRanks stopped_;
  Looks looks_;
  std::vector<bool> finished_;
  bool named_ = false;
  std::thread thread_;
};

HostedControl::HostedControl(Communicator& world, const std::string& trace_directory) {
  const bool one_host = on_one_host(world);
  const bool host = world.rank() == 0;
  if (host) server_ = std::make_unique<Server>(world.size(), !one_host, trace_directory);
  const std::string address = all_gather_text(world, host ? server_->address() : "").front();
  const std::string token = all_gather_text(world, host ? server_->token() : "").front();
  client_ = std::make_unique<ControlClient>(address, token, world.rank(), ControlHost::rank);
  if (host) server_->start();
}

HostedControl::~HostedControl() {
  client_.reset();
}

}  // namespace shardproof
