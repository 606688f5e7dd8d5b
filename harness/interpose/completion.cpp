// completion: MPI's waits and tests. A wait is a loop of tests, so that what is under way moves on
// and a hang is looked into. A wait for any of several requests never counts as standing.
#include <vector>

#include "harness/interpose/calls.h"

using namespace shardproof::interpose;

namespace {

// The operations of requests, taken before MPI may put MPI_REQUEST_NULL in their place.
class Watched {
 public:
  Watched(Session& all, const MPI_Request* requests, int count) : all_(all) {
    const std::lock_guard lock(all.mutex);
    for (int i = 0; i < count; ++i) {
      const auto found = all.records.find(requests[i]);
      if (found != all.records.end()) known_.push_back({i, requests[i], found->second});
    }
  }
  void stand() {
    for (const Known& each : known_) all_.recorder.stand(each.record);
  }
  // Those that are no longer under way.
  void settle(const MPI_Request* requests) {
    const std::lock_guard lock(all_.mutex);
    for (const Known& each : known_) {
      all_.recorder.leave(each.record);
      if (requests[each.index] == each.request) continue;
      all_.recorder.end(each.record);
      all_.records.erase(each.request);
    }
  }
  bool one() const { return known_.size() == 1; }

 private:
  struct Known {
    int index;
    MPI_Request request;
    std::uint64_t record;
  };
  Session& all_;
  std::vector<Known> known_;
};

// `test` says whether it is over.
template <typename Test>
void wait_with(const MPI_Request* requests, int count, bool for_all, const Test& test) {
  Session& all = *session();
  Watched watched(all, requests, count);
  if (for_all || (watched.one() && count == 1)) watched.stand();
  wait_until(all, test);
  watched.settle(requests);
}

template <typename Test>
int test_with(const MPI_Request* requests, int count, const Test& test) {
  Session* const all = session();
  if (all == nullptr) return test();
  Watched watched(*all, requests, count);
  progress(*all);
  const int code = test();
  watched.settle(requests);
  return code;
}

}  // namespace

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (session() == nullptr) return PMPI_Wait(request, status);
  int code = MPI_SUCCESS, flag = 0;
  wait_with(request, 1, true, [&] {
    code = PMPI_Test(request, &flag, status);
    return flag != 0 || code != MPI_SUCCESS;
  });
  return code;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (session() == nullptr) return PMPI_Waitall(count, requests, statuses);
  int code = MPI_SUCCESS, flag = 0;
  wait_with(requests, count, true, [&] {
    code = PMPI_Testall(count, requests, &flag, statuses);
    return flag != 0 || code != MPI_SUCCESS;
  });
  return code;
}

int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  if (session() == nullptr) return PMPI_Waitany(count, requests, index, status);
  int code = MPI_SUCCESS, flag = 0;
  wait_with(requests, count, false, [&] {
    code = PMPI_Testany(count, requests, index, &flag, status);
    return flag != 0 || code != MPI_SUCCESS;
  });
  return code;
}

int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[],
                 MPI_Status statuses[]) {
  if (session() == nullptr) return PMPI_Waitsome(count, requests, done, indices, statuses);
  int code = MPI_SUCCESS;
  wait_with(requests, count, false, [&] {
    code = PMPI_Testsome(count, requests, done, indices, statuses);
    return *done != 0 || code != MPI_SUCCESS;  // MPI_UNDEFINED: nothing is under way
  });
  return code;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return test_with(request, 1, [&] { return PMPI_Test(request, flag, status); });
}

int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  return test_with(requests, count, [&] { return PMPI_Testall(count, requests, flag, statuses); });
}

int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  return test_with(requests, count,
                   [&] { return PMPI_Testany(count, requests, index, flag, status); });
}

int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                 MPI_Status statuses[]) {
  return test_with(requests, count,
                   [&] { return PMPI_Testsome(count, requests, done, indices, statuses); });
}

int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (session() != nullptr) progress(*session());
  return PMPI_Request_get_status(request, flag, status);
}

int MPI_Request_free(MPI_Request* request) {
  Session* const all = session();
  if (all != nullptr) {
    const std::lock_guard lock(all->mutex);
    all->records.erase(*request);
  }
  return PMPI_Request_free(request);
}

// A send has announced its message, which somebody may count on: it goes on.
int MPI_Cancel(MPI_Request* request) {
  Session* const all = session();
  if (all == nullptr) return PMPI_Cancel(request);
  const std::lock_guard lock(all->mutex);
  const auto found = all->records.find(*request);
  if (found != all->records.end() && all->recorder.is_send(found->second)) return MPI_SUCCESS;
  return PMPI_Cancel(request);
}

}  // extern "C"
