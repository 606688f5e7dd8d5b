// communicators: MPI's beginning and end, and the calls that make and free communicators. A new
// communicator gets its control communicator at once, while all its ranks are there.
#include <fmt/format.h>

#include "harness/interpose/calls.h"

using namespace shardproof::interpose;

namespace {

// `make` fills `made`; `kind` becomes part of its name.
template <typename Make>
int make_communicator(MPI_Comm parent, MPI_Comm* made, const char* operation,
                      const std::string& kind, const Make& make) {
  Session* const all = session();
  const auto group = all == nullptr ? nullptr : all->find(parent);
  if (group == nullptr) return make();
  const std::string name = fmt::format("{}/{}{}", group->name, group->children++, kind);
  const int code = collective(
      parent, [&](const Group&) { return Terms(operation); }, make);
  if (code == MPI_SUCCESS) all->add(*made, name);
  return code;
}

template <typename Free>
int free_communicator(MPI_Comm* comm, const char* operation, const Free& free) {
  Session* const all = session();
  const auto group = all == nullptr ? nullptr : all->find(*comm);
  if (group == nullptr) return free();
  const auto nothing_started = [&] {
    const std::lock_guard lock(all->mutex);
    return group->started.empty();
  };
  wait_until(*all, nothing_started);
  const MPI_Comm handle = *comm;
  return collective(
      handle, [&](const Group&) { return Terms(operation); },
      [&] {
        all->remove(handle);
        return free();
      });
}

}  // namespace

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  const int code = PMPI_Init(argc, argv);
  if (code == MPI_SUCCESS) open_session();
  return code;
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  if (code == MPI_SUCCESS) open_session();
  return code;
}

int MPI_Finalize(void) {
  if (session() != nullptr) close_session();
  return PMPI_Finalize();
}

int MPI_Abort(MPI_Comm comm, int code) {
  if (session() != nullptr) session()->board->remove();
  return PMPI_Abort(comm, code);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  return make_communicator(comm, made, "comm_dup", ".dup",
                           [&] { return PMPI_Comm_dup(comm, made); });
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made) {
  return make_communicator(comm, made, "comm_dup_with_info", ".dup",
                           [&] { return PMPI_Comm_dup_with_info(comm, info, made); });
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  return make_communicator(comm, made, "comm_split", fmt::format(".split.{}", color),
                           [&] { return PMPI_Comm_split(comm, color, key, made); });
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  return make_communicator(comm, made, "comm_split_type", ".type.",
                           [&] { return PMPI_Comm_split_type(comm, type, key, info, made); });
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group of, MPI_Comm* made) {
  return make_communicator(comm, made, "comm_create", ".create.",
                           [&] { return PMPI_Comm_create(comm, of, made); });
}

int MPI_Cart_create(MPI_Comm comm, int dimensions, const int sizes[], const int periods[],
                    int reorder, MPI_Comm* made) {
  return make_communicator(comm, made, "cart_create", ".cart", [&] {
    return PMPI_Cart_create(comm, dimensions, sizes, periods, reorder, made);
  });
}

int MPI_Comm_free(MPI_Comm* comm) {
  return free_communicator(comm, "comm_free", [&] { return PMPI_Comm_free(comm); });
}

int MPI_Comm_disconnect(MPI_Comm* comm) {
  return free_communicator(comm, "comm_disconnect", [&] { return PMPI_Comm_disconnect(comm); });
}

int MPI_Type_free(MPI_Datatype* type) {
  forget_type(*type);
  return PMPI_Type_free(type);
}

}  // extern "C"
