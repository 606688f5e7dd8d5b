// wrong_call_rank: one MPI rank of the table of wrong calls.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "comm/mpi_communicator.h"
#include "comm/stack.h"
#include "harness/control_watchdog.h"
#include "harness/wrong_call_table.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;

constexpr Duration row_deadline = milliseconds(1500);  // without guards: what counts as a hang
constexpr Duration guarded_deadline = std::chrono::seconds(30);  // a verdict comes before
constexpr WatchLimits limits{milliseconds(400), std::chrono::seconds(20)};

// What guards this rank.
class RowWatch {
 public:
  RowWatch(ControlClient& control, int rank)
      : control_(limits, control),
        recorder_(std::make_shared<FlightRecorder>(rank)),
        watch_(std::make_shared<RankWatch>(recorder_, limits.look)) {
    control_.watchdog().join(watch_);
  }
  ~RowWatch() { control_.watchdog().leave(*watch_); }
  RowWatch(const RowWatch&) = delete;

  std::unique_ptr<Communicator> guarded(std::unique_ptr<Communicator> comm) const {
    StackOptions options;
    options.recorder = recorder_;
    options.watch = watch_;
    options.verify.emplace();
    return wrap(std::move(comm), options);
  }
  bool has_verdict() const { return watch_->verdict().has_value(); }

 private:
  ControlWatchdog control_;
  const std::shared_ptr<FlightRecorder> recorder_;
  const std::shared_ptr<RankWatch> watch_;
};

void say_line(const Json& line) {
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

// Groups of one row, split from the world while all is well: a row may spoil them.
struct RowGroups {
  std::unique_ptr<Communicator> one, other;
};

}  // namespace

void run_wrong_call_rank(const WrongCallJob& job, ControlClient& control) {
  MpiWorld world;
  auto bare = world.communicator();
  const int rank = bare->rank();
  const auto between = bare->split(0, rank, "between", default_deadline(*bare));
  std::optional<RowWatch> watch;
  if (job.guarded) watch.emplace(control, rank);
  const auto comm = watch ? watch->guarded(std::move(bare)) : std::move(bare);
  if (rank == 0) {
    const std::string library = MpiWorld::library_version();
    say_line({{"library", library.substr(0, library.find(','))}});
  }
  for (std::size_t i = job.first; i < job.last; ++i) {
    RowGroups groups;
    groups.one = comm->split(0, rank, fmt::format("row{}", i), default_deadline(*comm));
    groups.other = comm->split(0, rank, fmt::format("row{}b", i), default_deadline(*comm));
    barrier(*between);
    const auto outcome =
        run_wrong_call(wrong_call_rows()[i], job.elements, *groups.one, *groups.other,
                       job.guarded ? guarded_deadline : row_deadline);
    Json line = to_json(outcome);
    line["row"] = i;
    say_line(line);
    barrier(*between);
    if (watch && watch->has_verdict()) return;  // all waits of this job have been ended
  }
}

}  // namespace shardproof
