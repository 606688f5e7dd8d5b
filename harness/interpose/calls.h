// calls: what the entry points of MPI have in common. Thread rule: that of the program's calls.
#pragma once

#include <mpi.h>

#include <memory>

#include "harness/interpose/started.h"
#include "harness/interpose/waiting.h"

namespace shardproof::interpose {

// A communicator on which collectives are verified; null: the call passes through.
inline std::shared_ptr<Group> verified_group(MPI_Comm comm) {
  Session* const all = session();
  if (all == nullptr || !all->settings.verify) return nullptr;
  auto group = all->find(comm);
  return group != nullptr && group->size > 1 ? group : nullptr;
}

// A communicator whose messages carry envelopes.
inline std::shared_ptr<Group> message_group(MPI_Comm comm) {
  Session* const all = session();
  return all == nullptr || !all->settings.messages ? nullptr : all->find(comm);
}

template <typename MakeTerms, typename Run>
int collective(MPI_Comm comm, const MakeTerms& make_terms, const Run& run) {
  const auto group = verified_group(comm);
  if (group == nullptr) return run();
  int code = MPI_SUCCESS;
  agree(*session(), group, make_terms(*group), run, code);
  return code;
}

// `begin` takes the place of the request.
template <typename MakeTerms, typename Begin>
int nonblocking(MPI_Comm comm, MPI_Request* request, const MakeTerms& make_terms, Begin begin) {
  const auto group = verified_group(comm);
  if (group == nullptr) return begin(request);
  return start(*session(), group, make_terms(*group), begin, request);
}

}  // namespace shardproof::interpose
