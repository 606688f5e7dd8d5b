// started: nonblocking collectives. The program holds a generalized request; the ranks agree first,
// and then MPI's own nonblocking collective begins, in the order of the program's calls. Moves on
// in every call that the preload sees.
// Thread rule: as session.h.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "harness/interpose/agreement.h"

namespace shardproof::interpose {

class Started {
 public:
  using Begin = std::function<int(MPI_Request*)>;
  Started(std::unique_ptr<Agreement> agreement, Begin begin)
      : agreement_(std::move(agreement)), begin_(std::move(begin)) {}

  bool begun() const { return begun_; }
  // Whether it has ended. `may_begin`: those before it have begun.
  bool move(Session& all, bool may_begin);
  MPI_Request* handle() { return &handle_; }
  std::uint64_t record() const { return agreement_->record(); }
  int code() const { return code_; }

 private:
  const std::unique_ptr<Agreement> agreement_;
  const Begin begin_;
  bool begun_ = false;
  int code_ = MPI_SUCCESS;
  MPI_Request real_ = MPI_REQUEST_NULL;
  MPI_Request handle_ = MPI_REQUEST_NULL;
};

void move_started(Session& all, Group& group);
// MPI's own return code; `request` is the program's.
int start(Session& all, const std::shared_ptr<Group>& group, Terms terms, Started::Begin begin,
          MPI_Request* request);
// Agrees, after what was started before has begun.
void agree(Session& all, const std::shared_ptr<Group>& group, Terms terms,
           const std::function<int()>& run, int& code);

}  // namespace shardproof::interpose
