// waiting: test, move on, yield; and now and then a look.
#include "harness/interpose/waiting.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <limits>

#include "comm/hang_analysis.h"
#include "harness/interpose/messages.h"
#include "harness/interpose/started.h"

namespace shardproof::interpose {
namespace {

using std::chrono::milliseconds;

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// Looks of one wait. Never blocks: the wait goes on between its steps.
class Looks {
 public:
  explicit Looks(Session& all)
      : all_(all), begin_(Clock::real().now()), next_(begin_ + seconds(all.settings.look)) {}

  void step() {
    const Duration now = Clock::real().now();
    if (look_ == 0) {
      if (now < next_) return;
      look_ = all_.board->ask();
      asked_ = now;
    }
    if (!all_.board->answered(look_) && now - asked_ < patience) return;
    judge(all_.board->read(look_), now);
    look_ = 0;
    next_ = now + std::min<Duration>(milliseconds(250), seconds(all_.settings.look));
  }

 private:
  static constexpr Duration patience = milliseconds(500);

  void judge(FlightRecords records, Duration now) {
    const double limit = all_.settings.deadline;
    const bool endless = limit <= 0;
    const HangVerdict verdict =
        analyse_hang(records, {endless ? std::numeric_limits<double>::max() : limit});
    if (verdict.certain && same_standstill(last_, records, verdict)) end(verdict);
    const bool late = !endless && now - begin_ > seconds(limit);
    if (late && nobody_moves(records, limit)) end(verdict);
    if (verdict.kind == HangKind::straggler) tell(verdict);
    last_ = std::move(records);
  }

  // Of a wait for any rank, or for one on another machine, the records cannot say more.
  static bool nobody_moves(const FlightRecords& records, double limit) {
    return std::all_of(records.ranks.begin(), records.ranks.end(), [&](const RankRecords& each) {
      return each.life != RankLife::running || each.pulse_ago >= limit;
    });
  }

  [[noreturn]] void end(const HangVerdict& verdict) {
    if (!all_.board->claim_verdict()) {  // another rank says it, and ends the job
      const Deadline limit = Deadline::after(std::chrono::seconds(5));
      while (!limit.expired()) sched_yield();
      ::_exit(hang_code);
    }
    const std::string dumps =
        all_.settings.dumps.empty() ? "" : "\n  dumps: " + all_.settings.dumps;
    say(fmt::format("rank {}: hang ({}): {}{}", all_.rank, name(verdict.kind), verdict.text,
                    dumps));
    give_up(hang_code);
  }

  // One of those who wait says it, once an operation.
  void tell(const HangVerdict& verdict) {
    if (verdict.waiting.empty() || verdict.waiting.front() != all_.rank) return;
    if (told_) return;
    told_ = true;
    say(fmt::format("rank {}: {}", all_.rank, verdict.summary));
  }

  Session& all_;
  const Duration begin_;
  Duration next_;
  Duration asked_{};
  std::uint32_t look_ = 0;  // under way; 0: none
  FlightRecords last_;
  bool told_ = false;
};

}  // namespace

void progress(Session& all) {
  const std::lock_guard lock(all.mutex);
  // Copies: what ends may take a group with it.
  std::vector<std::shared_ptr<Group>> groups;
  for (const auto& [comm, group] : all.groups) {
    if (!group->started.empty() || group->mailbox->waits()) groups.push_back(group);
  }
  for (const auto& group : groups) {
    move_started(all, *group);
    move_messages(all, *group);
  }
}

void wait_until(Session& all, const std::function<bool()>& done) {
  constexpr int patient_turns = 64;
  Looks looks(all);
  for (unsigned turn = 0;; ++turn) {
    if (done()) return;
    progress(all);
    if (turn % patient_turns != patient_turns - 1) continue;
    sched_yield();
    looks.step();
  }
}

void stand_until(Session& all, std::uint64_t record, const std::function<bool()>& done) {
  all.recorder.stand(record);
  wait_until(all, done);
  all.recorder.leave(record);
}

}  // namespace shardproof::interpose
