// watchdog: a thread that sleeps, looks and tells.
#include "comm/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardproof {

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Error error_of(const HangVerdict& verdict) {
  const ErrorKind kind = verdict.kind == HangKind::mismatch ? ErrorKind::mismatch
                         : verdict.kind == HangKind::ended  ? ErrorKind::peer_died
                                                            : ErrorKind::timeout;
  const int rank = verdict.culprits.size() == 1 ? verdict.culprits.front() : Error::no_rank;
  return {kind, verdict.operation,
          "hang (" + std::string(name(verdict.kind)) + "): " + verdict.text, rank};
}

Watchdog::Watchdog(WatchLimits limits, Ways ways)
    : limits_(limits), ways_(std::move(ways)), thread_([this] { work(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::join(std::shared_ptr<RankWatch> rank) {
  const std::lock_guard lock(mutex_);
  ranks_.push_back(std::move(rank));
}

void Watchdog::leave(const RankWatch& rank) {
  const std::lock_guard lock(mutex_);
  for (const auto& each : ranks_) {
    if (each.get() == &rank) each->end();  // it stays, for the others to see that it has ended
  }
}

void Watchdog::forget(const RankWatch& rank) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranks_, [&](const auto& each) { return each.get() == &rank; });
}

void Watchdog::past(int world_rank) {
  const std::lock_guard lock(mutex_);
  past_.insert(world_rank);
}

FlightRecords Watchdog::here() const {
  const std::lock_guard lock(mutex_);
  FlightRecords records;
  for (const auto& rank : ranks_) records.ranks.push_back(rank->records());
  return records;
}

void Watchdog::deliver(const Error& verdict) {
  std::vector<std::shared_ptr<RankWatch>> ranks;
  {
    const std::lock_guard lock(mutex_);
    if (past_.contains(verdict.world_rank())) return;
    ranks = ranks_;
  }
  for (const auto& rank : ranks) rank->judge(verdict);
  for (const auto& rank : ranks) rank->release();
}

bool Watchdog::anybody_waits() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [this](const auto& rank) {
    const auto waited = rank->recorder().longest_wait();
    return waited && *waited >= limits_.look && !rank->verdict();
  });
}

void Watchdog::work() {
  const Duration tick = std::clamp<Duration>(limits_.look / 5, std::chrono::milliseconds(5),
                                             std::chrono::milliseconds(200));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, tick);
    if (stopping_) return;
    if (!anybody_waits()) {
      last_.ranks.clear();
      told_.clear();
      continue;
    }
    lock.unlock();
    look();
    lock.lock();
  }
}

void Watchdog::look() {
  FlightRecords records = ways_.gather ? ways_.gather() : here();
  const HangVerdict verdict = analyse_hang(records, {seconds(limits_.stall)});
  if (!verdict.certain || same_standstill(last_, records, verdict)) judge(verdict);
  last_ = std::move(records);
}

void Watchdog::judge(const HangVerdict& verdict) {
  if (verdict.certain) {
    const Error error = error_of(verdict);
    if (ways_.tell) return ways_.tell(error);
    return deliver(error);
  }
  const bool slow = verdict.kind == HangKind::straggler || verdict.kind == HangKind::skipped ||
                    verdict.kind == HangKind::silent;
  if (!slow || !ways_.note) return;
  std::string about = verdict.operation;
  for (const int rank : verdict.culprits) about += fmt::format(" {}", rank);
  if (told_.insert(about).second) ways_.note(verdict.summary);
}

}  // namespace shardproof
