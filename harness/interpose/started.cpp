// started: a queue for each communicator.
#include "harness/interpose/started.h"

#include "harness/interpose/waiting.h"

namespace shardproof::interpose {
namespace {

// The request keeps what it stands for.
struct Kept {
  std::shared_ptr<Started> started;
};

int query(void*, MPI_Status* status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

int release(void* state) {
  delete static_cast<Kept*>(state);
  return MPI_SUCCESS;
}

int cancel(void*, int) {
  return MPI_SUCCESS;  // collectives are not cancelled
}

}  // namespace

bool Started::move(Session& all, bool may_begin) {
  if (!begun_) {
    if (!agreement_->done() || !may_begin) return false;
    code_ = begin_(&real_);
    begun_ = true;
  }
  int ended = 1;
  if (code_ == MPI_SUCCESS) code_ = PMPI_Test(&real_, &ended, MPI_STATUS_IGNORE);
  if (ended == 0) return false;
  all.recorder.end(record(), code_ == MPI_SUCCESS);
  PMPI_Grequest_complete(handle_);
  return true;
}

void move_started(Session& all, Group& group) {
  bool may_begin = true;
  for (auto at = group.started.begin(); at != group.started.end();) {
    const bool ended = (*at)->move(all, may_begin);
    may_begin = may_begin && (*at)->begun();
    at = ended ? group.started.erase(at) : at + 1;
  }
}

int start(Session& all, const std::shared_ptr<Group>& group, Terms terms, Started::Begin begin,
          MPI_Request* request) {
  terms.field("call", "nonblocking");
  const std::lock_guard lock(all.mutex);
  const auto started =
      std::make_shared<Started>(std::make_unique<Agreement>(all, group, terms), std::move(begin));
  const int code =
      PMPI_Grequest_start(query, release, cancel, new Kept{started}, started->handle());
  if (code != MPI_SUCCESS) return code;
  *request = *started->handle();
  all.records[*request] = started->record();
  group->started.push_back(started);
  move_started(all, *group);
  return MPI_SUCCESS;
}

void agree(Session& all, const std::shared_ptr<Group>& group, Terms terms,
           const std::function<int()>& run, int& code) {
  terms.field("call", "blocking");  // MPI does not match one with the other
  Agreement agreement(all, group, terms);
  stand_until(all, agreement.record(), [&] {
    if (!agreement.done()) return false;
    const std::lock_guard lock(all.mutex);
    for (const auto& each : group->started) {
      if (!each->begun()) return false;
    }
    return true;
  });
  code = run();
  all.recorder.end(agreement.record(), code == MPI_SUCCESS);
}

}  // namespace shardproof::interpose
