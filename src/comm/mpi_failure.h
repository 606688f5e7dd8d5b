// mpi_failure: what the MPI library knows about dead ranks and revoked communicators, with ULFM
// (mpi-ext.h of Open MPI 5) or without it. Without ULFM nobody is ever known to be dead, and a
// revocation is an empty message to every rank.
// Thread rule: any thread (MPI_THREAD_MULTIPLE). Internal to the MPI backend.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace shardproof {

// Tags on a group's communicator: collectives by sequence number, then messages by their own tag,
// then agreements by sequence number, then the message that revokes.
inline constexpr int tag_space = 1 << 20;
inline constexpr int message_tags = tag_space;
inline constexpr int agreement_tags = 2 * tag_space;
inline constexpr int revoke_tag = 3 * tag_space;

bool ulfm_compiled();
std::vector<int> dead_ranks(MPI_Comm comm);  // group ranks, ascending
// Lets MPI hear of failures. An error it answers with is not looked at: dead_ranks says it.
void make_progress(MPI_Comm comm);
void revoke_comm(MPI_Comm comm);
bool is_revoked(MPI_Comm comm);
bool means_revoked(int code);
bool means_peer_died(int code);

// With ULFM only. The bitwise and of `flags` over the ranks that are alive, on a broken
// communicator as well; the request completes in `flags`.
int start_agreement(MPI_Comm comm, int* flags, MPI_Request* request);
int shrink_comm(MPI_Comm comm, MPI_Comm* survivors);

}  // namespace shardproof
