// world: thread ranks.
#include "harness/world.h"

#include <mutex>
#include <optional>

#include "comm/thread_communicator.h"
#include "harness/elastic_run.h"
#include "harness/prepare.h"
#include "harness/rank_facts.h"
#include "harness/rank_faults.h"
#include "harness/rank_guards.h"
#include "harness/rank_pool.h"
#include "harness/rank_run.h"

namespace shardproof {
namespace {

// A signal ends the whole process, so it cannot end one thread rank; a fault of the injector can.
void check_fault(const RunRequest& request) {
  const std::optional<TraceFault> fault = traced_with_fault(request).fault;
  if (fault && fault->kind != TraceFault::Kind::delay) {
    throw Error(ErrorKind::bad_input, "run.fault",
                "a thread rank cannot be killed or stopped alone; expected run.backend=mpi");
  }
}

// Ranks that were ended by a fault, as the launcher of processes would know them.
class Deaths {
 public:
  void add(int rank, const std::string& at) {
    const std::scoped_lock lock(mutex_);
    if (!first_) first_ = {rank, at};
  }
  // Error peer_died: the others went to their end all the same.
  void report() const {
    if (!first_) return;
    throw Error(ErrorKind::peer_died, first_->second, "ended before the run did", first_->first);
  }

 private:
  std::mutex mutex_;
  std::optional<std::pair<int, std::string>> first_;
};

}  // namespace

void run_on_threads(const RunRequest& request) {
  check_world_size(request.config);
  check_fault(request);
  const auto dataset = prepare(request);
  ThreadWorld world(rank_count(request.config), wait_limit(request.config));
  Watchdog watchdog(watch_limits(request.config), {.note = print_note});
  Deaths deaths;
  StandStill still(world.size());
  std::atomic<int> complete = 0;
  const auto train = [&](const RunRequest& mine, int rank, Hooks& hooks, RankFaults* faults) {
    const auto& data = mine.dataset ? mine.dataset : dataset;
    if (!request.config.run.elastic) {
      run_rank(mine, data, world.communicator(rank), hooks, faults, &watchdog);
      return;
    }
    try {
      run_elastic_rank(
          {mine, world.communicator(rank), [&] { return data; }, hooks, faults, &watchdog});
      ++complete;
    } catch (...) {
      world.kill(rank);  // as a process that ends: nobody waits for it in a meeting
      throw;
    }
  };
  const auto body = [&](int rank) {
    const std::shared_ptr<void> ended(nullptr, [&](void*) { still.ended(); });
    Hooks none;
    const auto hooks = request.hooks ? request.hooks(rank) : nullptr;
    Hooks& own = hooks ? *hooks : none;
    std::atomic<bool> dead = false;
    const auto die = [&] {
      dead = true;
      world.kill(rank);
    };
    const auto faults = rank_faults(request, rank, thread_powers(die, still));
    if (!faults) return train(request, rank, own, nullptr);
    try {
      const RunRequest mine = faults->started(request);  // what befalls the start, hooks know of
      train(mine, rank, *faults->hooks(own), faults.get());
    } catch (const SimulatedDeath& death) {
      deaths.add(rank, death.at().text());
    } catch (const std::exception& error) {
      if (!dead) throw;  // what a dead rank would say on its way out, nobody hears
      deaths.add(rank, error.what());
    }
  };
  run_ranks(world.size(), body, [&] {
    world.revoke_all();
    still.release();
  });
  const bool outlived = complete > 0;  // in an elastic run
  if (!outlived) deaths.report();
}

bool run(const RunRequest& request) {
  if (request.config.run.backend == "mpi") return run_on_mpi(request);
  run_on_threads(request);
  return request.stop == nullptr || !request.stop->load();
}

}  // namespace shardproof
