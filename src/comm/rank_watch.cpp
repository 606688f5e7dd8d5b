// rank_watch: a verdict, and the groups that are revoked with it.
#include "comm/rank_watch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/deadline_wait.h"

namespace shardproof {

RankWatch::RankWatch(std::shared_ptr<FlightRecorder> recorder, Duration look)
    : recorder_(std::move(recorder)), look_(look) {
  SP_CHECK(recorder_ != nullptr, "what is not recorded cannot be watched");
}

RankRecords RankWatch::records() const {
  RankRecords records = recorder_->records();
  const std::lock_guard lock(mutex_);
  if (ended_) records.life = RankLife::ended;
  return records;
}

void RankWatch::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void RankWatch::join(Communicator& comm) {
  const std::lock_guard lock(joined_mutex_);
  joined_.push_back(&comm);
}

void RankWatch::leave(Communicator& comm) {
  const std::lock_guard lock(joined_mutex_);
  std::erase(joined_, &comm);
}

void RankWatch::judge(const Error& verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (verdict_ || ended_) return;
    verdict_ = verdict;
  }
  given_.notify_all();
}

void RankWatch::release() {
  if (!verdict()) return;  // it had ended
  const std::lock_guard lock(joined_mutex_);
  for (Communicator* const comm : joined_) comm->revoke();
}

std::optional<Error> RankWatch::verdict() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

std::optional<Error> RankWatch::verdict_within(Duration patience) const {
  std::unique_lock lock(mutex_);
  wait_under(given_, lock, Deadline::after(patience), [this] { return verdict_.has_value(); });
  return verdict_;
}

}  // namespace shardproof
