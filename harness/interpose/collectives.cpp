// collectives: MPI's blocking collectives. After the ranks have agreed it is MPI's own blocking
// call that runs: the same algorithms and the same bits as without the preload.
#include "harness/interpose/calls.h"
#include "harness/interpose/terms.h"

using namespace shardproof::interpose;

extern "C" {

int MPI_Barrier(MPI_Comm comm) {
  return collective(
      comm, [](const Group&) { return Terms("barrier"); }, [&] { return PMPI_Barrier(comm); });
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return broadcast_terms({count, type}, root);
      },
      [&] { return PMPI_Bcast(data, count, type, root, comm); });
}

int MPI_Reduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return rooted_reduce_terms({count, type}, op, root);
      },
      [&] { return PMPI_Reduce(send, recv, count, type, op, root, comm); });
}

int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return reduce_terms("all_reduce", {count, type}, op);
      },
      [&] { return PMPI_Allreduce(send, recv, count, type, op, comm); });
}

int MPI_Scan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return reduce_terms("scan", {count, type}, op);
      },
      [&] { return PMPI_Scan(send, recv, count, type, op, comm); });
}

int MPI_Exscan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return reduce_terms("exscan", {count, type}, op);
      },
      [&] { return PMPI_Exscan(send, recv, count, type, op, comm); });
}

int MPI_Reduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group& group) {
        return reduce_scatter_terms(group, {counts, type}, op);
      },
      [&] { return PMPI_Reduce_scatter(send, recv, counts, type, op, comm); });
}

int MPI_Reduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group&) {
        return reduce_terms("reduce_scatter", {count, type}, op);
      },
      [&] { return PMPI_Reduce_scatter_block(send, recv, count, type, op, comm); });
}

int MPI_Gather(const void* send, int send_count, MPI_Datatype send_type, void* recv, int recv_count,
               MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group& group) {
        return gather_terms(group, {send_count, send_type}, {recv_count, recv_type}, root);
      },
      [&] {
        return PMPI_Gather(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
      });
}

int MPI_Gatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                const int recv_counts[], const int places[], MPI_Datatype recv_type, int root,
                MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group& group) {
        return gatherv_terms(group, {send_count, send_type}, {recv_counts, recv_type}, root);
      },
      [&] {
        return PMPI_Gatherv(send, send_count, send_type, recv, recv_counts, places, recv_type, root,
                            comm);
      });
}

int MPI_Scatter(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group& group) {
        return scatter_terms(group, {send_count, send_type}, {recv_count, recv_type}, root);
      },
      [&] {
        return PMPI_Scatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm);
      });
}

int MPI_Scatterv(const void* send, const int send_counts[], const int places[],
                 MPI_Datatype send_type, void* recv, int recv_count, MPI_Datatype recv_type,
                 int root, MPI_Comm comm) {
  return collective(
      comm,
      [&](const Group& group) {
        return scatterv_terms(group, {send_counts, send_type}, {recv_count, recv_type}, root);
      },
      [&] {
        return PMPI_Scatterv(send, send_counts, places, send_type, recv, recv_count, recv_type,
                             root, comm);
      });
}

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  return collective(
      comm,
      [&](const Group&) {
        return symmetric_terms("all_gather", {send_count, send_type, in_place},
                               {recv_count, recv_type});
      },
      [&] {
        return PMPI_Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm);
      });
}

int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                   const int recv_counts[], const int places[], MPI_Datatype recv_type,
                   MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  return collective(
      comm,
      [&](const Group& group) {
        return allgatherv_terms(group, {send_count, send_type, in_place}, {recv_counts, recv_type});
      },
      [&] {
        return PMPI_Allgatherv(send, send_count, send_type, recv, recv_counts, places, recv_type,
                               comm);
      });
}

int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                 int recv_count, MPI_Datatype recv_type, MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  return collective(
      comm,
      [&](const Group&) {
        return symmetric_terms("all_to_all", {send_count, send_type, in_place},
                               {recv_count, recv_type});
      },
      [&] {
        return PMPI_Alltoall(send, send_count, send_type, recv, recv_count, recv_type, comm);
      });
}

int MPI_Alltoallv(const void* send, const int send_counts[], const int send_places[],
                  MPI_Datatype send_type, void* recv, const int recv_counts[],
                  const int recv_places[], MPI_Datatype recv_type, MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  return collective(
      comm,
      [&](const Group& group) {
        return alltoallv_terms(group, {send_counts, send_type}, {recv_counts, recv_type}, in_place);
      },
      [&] {
        return PMPI_Alltoallv(send, send_counts, send_places, send_type, recv, recv_counts,
                              recv_places, recv_type, comm);
      });
}

int MPI_Alltoallw(const void* send, const int send_counts[], const int send_places[],
                  const MPI_Datatype send_types[], void* recv, const int recv_counts[],
                  const int recv_places[], const MPI_Datatype recv_types[], MPI_Comm comm) {
  const bool in_place = send == MPI_IN_PLACE;
  return collective(
      comm,
      [&](const Group& group) {
        return alltoallv_terms(group, {send_counts, MPI_DATATYPE_NULL, send_types},
                               {recv_counts, MPI_DATATYPE_NULL, recv_types}, in_place);
      },
      [&] {
        return PMPI_Alltoallw(send, send_counts, send_places, send_types, recv, recv_counts,
                              recv_places, recv_types, comm);
      });
}

}  // extern "C"
