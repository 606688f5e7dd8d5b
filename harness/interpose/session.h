// session: what the preload knows of the program it was put into, between MPI_Init and
// MPI_Finalize: its communicators, and what of its operations is under way. A communicator that
// MPI made in a way that is not covered (and every intercommunicator) is not known, and calls on it
// pass through; that is the same on all its ranks.
// Thread rule: under `mutex`, which is never held in a wait.
#pragma once

#include <mpi.h>

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/interpose/board.h"
#include "harness/interpose/recorder.h"
#include "harness/interpose/settings.h"

namespace shardproof::interpose {

class Started;   // a nonblocking collective: started.h
struct Mailbox;  // messages of a communicator: messages.h

struct Group {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm control = MPI_COMM_NULL;  // a duplicate: agreements and envelopes
  std::string name;                  // the same on all its ranks
  std::vector<int> world_ranks;
  int rank = 0, size = 1;
  std::uint64_t sequence = 0;  // of collectives
  int children = 0;
  std::deque<std::shared_ptr<Started>> started;
  std::shared_ptr<Mailbox> mailbox;
  int world_rank() const { return world_ranks[static_cast<std::size_t>(rank)]; }
};

// Tags on control communicators.
constexpr int envelope_tag = 1, contract_tag = 2, verdict_tag = 3, printed_tag = 4;

struct Session {
  explicit Session(const Settings& settings);  // collective over MPI_COMM_WORLD
  Session(const Session&) = delete;

  // Collective over `comm`, the same name on all its ranks; one that ends in a dot is completed by
  // the first of them. MPI_COMM_NULL is left alone.
  void add(MPI_Comm comm, const std::string& name);
  void remove(MPI_Comm comm);
  std::shared_ptr<Group> find(MPI_Comm comm);

  const Settings settings;
  int rank = 0, size = 1;
  Recorder recorder;
  std::unique_ptr<Board> board;
  std::recursive_mutex mutex;
  std::map<MPI_Comm, std::shared_ptr<Group>> groups;
  std::map<MPI_Request, std::uint64_t> records;  // of requests the program holds
  MPI_Op agreeing = MPI_OP_NULL;
};

Session* session();  // null outside of MPI
void open_session();
void close_session();

// Exit codes of a job that the preload ends.
constexpr int mismatch_code = 86, hang_code = 87, refused_code = 88;
void say(const std::string& text);  // "shardproof: ..." on stderr, one write
// Does not return: dumps of all ranks, then MPI_Abort.
[[noreturn]] void give_up(int code);

}  // namespace shardproof::interpose
