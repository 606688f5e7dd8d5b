// elastic_run: goes and meetings.
#include "harness/elastic_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "comm/watchdog.h"
#include "harness/newest_whole.h"
#include "harness/pool.h"
#include "harness/rank_run.h"
#include "harness/recovery.h"
#include "harness/seating.h"
#include "mesh/layout.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

// Errors that a death can have led to. Whether one has is for the meeting to say. A timeout is
// none: of a rank that waits for a dead one its communicator says that.
bool may_follow_from_death(const Error& error) {
  return error.kind() == ErrorKind::peer_died || error.kind() == ErrorKind::revoked ||
         error.kind() == ErrorKind::environment;
}

std::string ranks_text(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

class ElasticRun {
 public:
  explicit ElasticRun(ElasticRank parts)
      : parts_(std::move(parts)),
        request_(parts_.request),
        pool_(std::move(parts_.all), wrap_of(parts_.faults)),
        began_with_(parse_layout(request_.config.run.layout).world()) {}

  void run() {
    for (int go = 0;; ++go) {
      const GoEnd end = try_go(go);
      noticed_ = Clock::real().now();
      const Meeting met = meet(end);
      if (end == GoEnd::waited) noticed_ = Clock::real().now();
      for (const int rank : met.died) {
        if (parts_.watchdog != nullptr) parts_.watchdog->past(rank);
      }
      if (is_complete(met)) return;
      died_.insert(died_.end(), met.died.begin(), met.died.end());
    }
  }

 private:
  static Wrap wrap_of(const RankFaults* faults) {
    if (faults == nullptr) return nullptr;
    return [faults](auto comm) { return faults->outer(std::move(comm)); };
  }

  GoEnd try_go(int number) {
    failure_ = nullptr;
    patience_ = pool_.timeout();
    try {
      return go(number);
    } catch (const Error& error) {
      failure_ = std::current_exception();
      pool_.release();
      // Who made this one wait too long may not come to the meeting either.
      constexpr Duration last_patience = std::chrono::seconds(2);
      if (error.kind() == ErrorKind::timeout) patience_ = std::min(patience_, last_patience);
      return may_follow_from_death(error) ? GoEnd::lost : GoEnd::failed;
    } catch (...) {
      failure_ = std::current_exception();
      pool_.release();
      return GoEnd::failed;
    }
  }

  // A rank that cannot meet the others, or is itself dead, ends by what it failed of.
  Meeting meet(GoEnd mine) {
    try {
      return pool_.meet(mine, patience_);
    } catch (const Error&) {
      if (failure_) std::rethrow_exception(failure_);
      throw;
    }
  }

  bool is_complete(const Meeting& met) const {
    if (met.any(GoEnd::failed) || (met.any(GoEnd::lost) && met.died.empty())) {
      if (failure_) std::rethrow_exception(failure_);
      throw Error(ErrorKind::revoked, "elastic run", "another rank failed, and none has died");
    }
    const auto works = [&](int rank) {
      return std::find(workers_.begin(), workers_.end(), rank) != workers_.end();
    };
    const bool worker_died = std::any_of(met.died.begin(), met.died.end(), works);
    return !worker_died && !met.any(GoEnd::lost) && !met.any(GoEnd::paused);
  }

  GoEnd go(int number) {
    const std::string checkpoint = number == 0 ? "" : newest_of_all();
    const Seating seats = seats_for(number, checkpoint);
    workers_.clear();
    for (const int position : seats.workers) {
      workers_.push_back(pool_.ranks()[static_cast<std::size_t>(position)]);
    }
    auto world =
        pool_.world(seats.workers, number == 0 ? "world" : fmt::format("world~{}", number));
    if (!world) {
      if (number > 0) dataset();
      return GoEnd::waited;
    }
    const RunRequest request = request_of(number, seats, checkpoint);
    return work(number, request, seats, std::move(world)) ? GoEnd::complete : GoEnd::paused;
  }

  // Go 1 calls the spares: in later ones they are ready.
  Seating seats_for(int number, const std::string& checkpoint) const {
    std::vector<bool> ready;
    for (const int rank : pool_.ranks()) ready.push_back(number > 1 || rank < began_with_);
    const bool anew = number > 0 && checkpoint.empty();
    if (const auto seats = seating(request_.config, ready, anew)) return *seats;
    const std::size_t left = pool_.ranks().size();
    throw Error(
        ErrorKind::peer_died, "elastic run",
        fmt::format("{} died; found no legal layout for the {} rank{} left; expected one "
                    "smaller than {}",
                    ranks_text(died_), left, left == 1 ? "" : "s", request_.config.run.layout),
        died_.empty() ? Error::no_rank : died_.front());
  }

  // Rank 0 of those left looks for it. Empty: none was made yet.
  std::string newest_of_all() {
    return pool_.gather(pool_.position() == 0 ? newest() : "").front();
  }

  std::string newest() const {
    const std::string& directory = request_.config.checkpoint.directory;
    if (!request_.storage && directory.empty()) return "";
    const std::shared_ptr<Storage> storage =
        request_.storage ? request_.storage : posix_storage(directory, true);
    std::string newest_damage;
    const std::string id =
        newest_whole(*storage, [&](const std::string& bad, const Damage& damage) {
          if (newest_damage.empty()) newest_damage = text(bad, damage);
          fmt::print(stderr, "shardproof: {}; trying the one before\n", text(bad, damage));
        });
    if (!id.empty() || newest_damage.empty()) return id;
    throw Error(ErrorKind::corrupt, directory, "no checkpoint is whole: " + newest_damage);
  }

  // What fires from the trace does so in the first go alone: afterwards other ranks have its
  // number.
  RunRequest request_of(int number, const Seating& seats, const std::string& checkpoint) const {
    RunRequest request = request_;
    if (number == 0) return request;
    request.config.run.layout = seats.layout;
    request.on_part = nullptr;  // of the start alone
    if (!is_injected(request.config.run.fault)) request.config.run.fault.clear();
    request.trace.fault.reset();
    if (checkpoint.empty()) return request;
    request.resume = checkpoint;
    request.fallback = true;
    request.new_case_from.clear();
    return request;
  }

  const std::shared_ptr<const Dataset>& dataset() {
    if (!dataset_) dataset_ = parts_.dataset();
    return dataset_;
  }

  bool work(int number, const RunRequest& request, const Seating& seats,
            std::unique_ptr<Communicator> world) {
    Go go{number, seats.grows, nullptr, nullptr};
    Recovery recovery{"regroup", number, request.resume.value_or(""), seats.layout, -1, {}};
    if (number > 0) go.recovery = trace_event(request, seats);
    Duration last = noticed_;
    const auto take = [&](const char* part) {
      const Duration now = Clock::real().now();
      recovery.parts.push_back({part, std::chrono::duration<double>(now - last).count()});
      last = now;
    };
    const bool tells = number > 0 && world->rank() == 0;
    if (tells) {
      take("regroup");
    }
    go.done = [&](const char* part, std::int64_t step) {
      const bool stepped = part == std::string("step");
      if (tells && recovery.step < 0) {
        take(part);
        if (stepped) {
          recovery.step = step;
          tell(recovery);
        }
      }
      if (stepped) died_.clear();
    };
    const bool complete = run_rank(request, dataset(), std::move(world), parts_.hooks,
                                   parts_.faults, parts_.watchdog, &go);
    if (tells && recovery.step < 0) tell(recovery);
    return complete;
  }

  Json trace_event(const RunRequest& request, const Seating& seats) const {
    return Json{{"kind", "recovery"},
                {"checkpoint", request.resume ? Json(*request.resume) : Json(nullptr)},
                {"layout", seats.layout},
                {"workers", workers_},
                {"died", died_}};
  }

  void tell(const Recovery& recovery) const {
    const std::string why = died_.empty() ? "more ranks join" : ranks_text(died_) + " died";
    fmt::print(stderr, "shardproof: {}: {}\n", why, text(recovery));
    if (request_.trace.directory.empty()) return;
    Json event = to_json(recovery);
    event["kind"] = "recovery";
    event["died"] = died_;
    event["workers"] = workers_;
    append_harness_event(request_.trace.directory, event);
  }

  ElasticRank parts_;
  const RunRequest& request_;
  Pool pool_;
  const int began_with_;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int> workers_;    // of the go, by the ranks that the job began with
  std::vector<int> died_;       // since this rank saw a step done
  Duration patience_{};         // with those who do not come to the meeting
  Duration noticed_{};          // that the go before could not go on
  std::exception_ptr failure_;  // of this rank's go
};

}  // namespace

int rank_count(const Config& config) {
  return parse_layout(config.run.layout).world() + config.run.spares;
}

void run_elastic_rank(ElasticRank parts) {
  ElasticRun(std::move(parts)).run();
}

}  // namespace shardproof
