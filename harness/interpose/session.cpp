// session: made in MPI_Init, gone in MPI_Finalize.
#include "harness/interpose/session.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "harness/interpose/agreement.h"
#include "harness/interpose/messages.h"

namespace shardproof::interpose {
namespace {

std::unique_ptr<Session>& holder() {
  static std::unique_ptr<Session> one;
  return one;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

// One name for all ranks: that of rank 0's process.
std::string shared_folder(const std::string& parent, int rank) {
  char name[4096] = {};
  if (rank == 0) {
    const std::string folder = Board::new_folder(parent);
    std::strncpy(name, folder.c_str(), sizeof name - 1);
  }
  PMPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  return name;
}

std::vector<int> world_ranks_of(MPI_Comm comm, int size) {
  std::vector<int> mine(static_cast<std::size_t>(size)), world(mine.size());
  for (int i = 0; i < size; ++i) mine[static_cast<std::size_t>(i)] = i;
  MPI_Group of_comm, of_world;
  PMPI_Comm_group(comm, &of_comm);
  PMPI_Comm_group(MPI_COMM_WORLD, &of_world);
  PMPI_Group_translate_ranks(of_comm, size, mine.data(), of_world, world.data());
  PMPI_Group_free(&of_comm);
  PMPI_Group_free(&of_world);
  return world;
}

}  // namespace

Session::Session(const Settings& asked) : settings(asked), recorder(rank_in(MPI_COMM_WORLD)) {
  rank = rank_in(MPI_COMM_WORLD);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  agreeing = make_agreeing_op();
  Board::sweep(settings.board);
  board = std::make_unique<Board>(
      shared_folder(settings.board, rank), rank, size,
      Board::Ways{[this](std::size_t n) { return recorder.records(n); }, settings.dumps});
  add(MPI_COMM_WORLD, "world");
  add(MPI_COMM_SELF, "self.");
}

void Session::add(MPI_Comm comm, const std::string& name) {
  if (comm == MPI_COMM_NULL) return;
  auto group = std::make_shared<Group>();
  group->comm = comm;
  group->name = name;
  group->rank = rank_in(comm);
  PMPI_Comm_size(comm, &group->size);
  group->world_ranks = world_ranks_of(comm, group->size);
  if (name.ends_with('.')) group->name += std::to_string(group->world_ranks.front());
  group->mailbox = std::make_shared<Mailbox>();
  PMPI_Comm_dup(comm, &group->control);
  PMPI_Comm_set_errhandler(group->control, MPI_ERRORS_RETURN);
  recorder.know(group->name, group->world_ranks);
  const std::lock_guard lock(mutex);
  groups[comm] = std::move(group);
}

void Session::remove(MPI_Comm comm) {
  const std::lock_guard lock(mutex);
  const auto found = groups.find(comm);
  if (found == groups.end()) return;
  PMPI_Comm_free(&found->second->control);
  groups.erase(found);
}

std::shared_ptr<Group> Session::find(MPI_Comm comm) {
  const std::lock_guard lock(mutex);
  const auto found = groups.find(comm);
  return found == groups.end() ? nullptr : found->second;
}

Session* session() {
  return holder().get();
}

void open_session() {
  try {
    holder() = std::make_unique<Session>(read_settings());
  } catch (const Error& error) {
    say(error.what());
    PMPI_Abort(MPI_COMM_WORLD, exit_code(error.kind()));
  }
}

void close_session() {
  Session& all = *session();
  all.recorder.finish();
  finish_envelopes();
  all.remove(MPI_COMM_WORLD);
  all.remove(MPI_COMM_SELF);
  PMPI_Op_free(&all.agreeing);
  PMPI_Barrier(MPI_COMM_WORLD);  // nobody reads the board any more
  all.board->remove();
  holder().reset();
}

void say(const std::string& text) {
  const std::string line = "shardproof: " + text + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void give_up(int code) {
  Session& all = *session();
  all.board->claim_verdict();
  const Deadline patience = Deadline::after(std::chrono::seconds(1));
  while (!all.board->dumped() && !patience.expired()) sched_yield();
  // What ranks print when their job is aborted may be lost.
  const Deadline printed = Deadline::after(std::chrono::milliseconds(200));
  while (!printed.expired()) sched_yield();
  all.board->remove();
  PMPI_Abort(MPI_COMM_WORLD, code);
  ::_exit(code);
}

}  // namespace shardproof::interpose
