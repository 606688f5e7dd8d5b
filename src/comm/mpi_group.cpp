// mpi_group: health of a group, and waiting that looks after it.
#include "comm/mpi_group.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <future>
#include <optional>
#include <thread>

#include "base/check.h"

namespace shardproof {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

MpiGroup::MpiGroup(std::shared_ptr<MpiProcess> process, MPI_Comm comm, Group group,
                   std::shared_ptr<MpiGroup> parent)
    : process_(std::move(process)),
      parent_(std::move(parent)),
      comm_(comm),
      group_(std::move(group)) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  int size = 0;
  MPI_Comm_size(comm_, &size);
  SP_CHECK_EQ(static_cast<std::size_t>(size), group_.world_ranks.size());
}

MpiGroup::~MpiGroup() {
  // A communicator that peers may still revoke or send to must keep its place in the library.
  if (!process_->finalized && !process_->unclean && !stopped()) MPI_Comm_free(&comm_);
}

void MpiGroup::poison() {
  poisoned_ = true;
  process_->unclean = true;
}

void MpiGroup::revoke() {
  if (!revoked_.exchange(true)) revoke_comm(comm_);
}

void MpiGroup::time_out() {
  poison();
  if (!timed_out_.exchange(true)) revoke_comm(comm_);
}

bool MpiGroup::stopped() const {
  if (poisoned_) return true;
  for (const MpiGroup* g = this; g != nullptr; g = g->parent_.get()) {
    if (g->revoked_) return true;
  }
  return false;
}

bool MpiGroup::revoked_anywhere() const {
  for (const MpiGroup* g = this; g != nullptr; g = g->parent_.get()) {
    if (g->revoked_ || is_revoked(g->comm_)) return true;
  }
  return false;
}

void MpiGroup::check(const std::string& place) {
  if (const std::vector<int> dead = dead_ranks(comm_); !dead.empty()) {
    poison();
    const int rank = group_.world_ranks[static_cast<std::size_t>(dead.front())];
    throw Error(ErrorKind::peer_died, place, "world rank " + std::to_string(rank) + " is gone",
                rank);
  }
  if (!timed_out_ && revoked_anywhere()) {
    revoked_ = true;
    throw Error(ErrorKind::revoked, place, "the group was revoked");
  }
  if (poisoned_) {
    throw Error(ErrorKind::revoked, place, "the group is poisoned by an earlier failure");
  }
}

// Who asks may wait elsewhere than in MPI, which hears of a death only while it is called.
bool MpiGroup::poisoned() const {
  if (!poisoned_) make_progress(comm_);
  return poisoned_ || revoked_anywhere() || !dead_ranks(comm_).empty();
}

void MpiGroup::fail(int code, const std::string& place) {
  int error_class = code;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_ERR_TRUNCATE) {
    poison();
    throw Error(ErrorKind::mismatch, place, "a rank sent more than this rank expects");
  }
  if (means_revoked(code)) {
    revoked_ = true;
    check(place);
  }
  // The library may report a broken connection before it knows who died.
  const Deadline grace = Deadline::after(milliseconds(ulfm_compiled() ? 500 : 0));
  while (dead_ranks(comm_).empty() && !grace.expired()) {
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, revoke_tag, comm_, &flag, MPI_STATUS_IGNORE);
    std::this_thread::sleep_for(milliseconds(1));
  }
  check(place);
  poison();
  throw Error(means_peer_died(code) ? ErrorKind::peer_died : ErrorKind::environment, place,
              error_text(code));
}

void MpiGroup::count(std::uint64_t bytes_sent, Duration time_in_call) {
  bytes_sent_ += bytes_sent;
  time_in_calls_ += time_in_call.count();
}

Traffic MpiGroup::traffic() const {
  return {calls_, bytes_sent_, Duration(time_in_calls_.load())};
}

void poll(MpiGroup& group, Deadline deadline, const std::function<bool()>& advance,
          const std::function<std::string()>& place) {
  constexpr Duration spin = microseconds(20);
  constexpr Duration patience = milliseconds(20);
  constexpr Duration between_checks = milliseconds(1);
  if (advance()) return;
  const Duration begin = Clock::real().now();
  Duration next_check = begin + between_checks;
  while (!advance()) {
    if (group.stopped()) group.check(place());
    const Duration now = Clock::real().now();
    if (now >= next_check) {
      group.check(place());
      next_check = now + between_checks;
    }
    if (deadline.expired()) {
      group.time_out();
      throw Error(ErrorKind::timeout, place(), "not complete at its deadline");
    }
    if (now - begin > patience) {
      std::this_thread::sleep_for(microseconds(50));
    } else if (group.process().crowded || now - begin > spin) {
      sched_yield();
    }
  }
}

namespace {

// The Error of a group that has broken; nothing: it is well.
std::optional<Error> breakage(MpiGroup& group, const std::string& place) {
  try {
    group.check(place);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

int call_blocking(MpiGroup& group, Deadline deadline, const std::string& place, OnBrokenGroup how,
                  std::function<int()> function) {
  constexpr Duration between_checks = milliseconds(20);
  constexpr Duration patience = milliseconds(500);  // for the library to end it by itself

  std::packaged_task<int()> task(std::move(function));
  std::future<int> code = task.get_future();
  std::thread thread(std::move(task));
  std::optional<Error> broken;
  Deadline give_up = Deadline::never();
  while (code.wait_for(std::min<Duration>(deadline.left(), between_checks)) !=
         std::future_status::ready) {
    if (how == OnBrokenGroup::gives_up && !broken) {
      broken = breakage(group, place);
      if (broken) give_up = Deadline::after(patience);
    }
    if (!deadline.expired() && !give_up.expired()) continue;
    thread.detach();
    if (broken) throw *broken;
    group.time_out();
    throw Error(ErrorKind::timeout, place, "not complete at its deadline");
  }
  thread.join();
  return code.get();
}

}  // namespace shardproof
