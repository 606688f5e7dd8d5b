// nonblocking: MPI's nonblocking collectives. See started.h.
#include "harness/interpose/calls.h"
#include "harness/interpose/terms.h"

using namespace shardproof::interpose;

extern "C" {

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return nonblocking(
      comm, request, [](const Group&) { return Terms("barrier"); },
      [=](MPI_Request* real) { return PMPI_Ibarrier(comm, real); });
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return broadcast_terms({count, type}, root);
      },
      [=](MPI_Request* real) { return PMPI_Ibcast(data, count, type, root, comm, real); });
}

int MPI_Ireduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return rooted_reduce_terms({count, type}, op, root);
      },
      [=](MPI_Request* real) {
        return PMPI_Ireduce(send, recv, count, type, op, root, comm, real);
      });
}

int MPI_Iallreduce(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return reduce_terms("all_reduce", {count, type}, op);
      },
      [=](MPI_Request* real) { return PMPI_Iallreduce(send, recv, count, type, op, comm, real); });
}

int MPI_Igather(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group& group) {
        return gather_terms(group, {send_count, send_type}, {recv_count, recv_type}, root);
      },
      [=](MPI_Request* real) {
        return PMPI_Igather(send, send_count, send_type, recv, recv_count, recv_type, root, comm,
                            real);
      });
}

int MPI_Iscatter(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                 int recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                 MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group& group) {
        return scatter_terms(group, {send_count, send_type}, {recv_count, recv_type}, root);
      },
      [=](MPI_Request* real) {
        return PMPI_Iscatter(send, send_count, send_type, recv, recv_count, recv_type, root, comm,
                             real);
      });
}

int MPI_Iallgather(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                   int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request* request) {
  const bool in_place = send == MPI_IN_PLACE;
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return symmetric_terms("all_gather", {send_count, send_type, in_place},
                               {recv_count, recv_type});
      },
      [=](MPI_Request* real) {
        return PMPI_Iallgather(send, send_count, send_type, recv, recv_count, recv_type, comm,
                               real);
      });
}

int MPI_Ialltoall(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                  int recv_count, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request* request) {
  const bool in_place = send == MPI_IN_PLACE;
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return symmetric_terms("all_to_all", {send_count, send_type, in_place},
                               {recv_count, recv_type});
      },
      [=](MPI_Request* real) {
        return PMPI_Ialltoall(send, send_count, send_type, recv, recv_count, recv_type, comm, real);
      });
}

int MPI_Iallgatherv(const void* send, int send_count, MPI_Datatype send_type, void* recv,
                    const int recv_counts[], const int places[], MPI_Datatype recv_type,
                    MPI_Comm comm, MPI_Request* request) {
  const bool in_place = send == MPI_IN_PLACE;
  return nonblocking(
      comm, request,
      [&](const Group& group) {
        return allgatherv_terms(group, {send_count, send_type, in_place}, {recv_counts, recv_type});
      },
      [=](MPI_Request* real) {
        return PMPI_Iallgatherv(send, send_count, send_type, recv, recv_counts, places, recv_type,
                                comm, real);
      });
}

int MPI_Ialltoallv(const void* send, const int send_counts[], const int send_places[],
                   MPI_Datatype send_type, void* recv, const int recv_counts[],
                   const int recv_places[], MPI_Datatype recv_type, MPI_Comm comm,
                   MPI_Request* request) {
  const bool in_place = send == MPI_IN_PLACE;
  return nonblocking(
      comm, request,
      [&](const Group& group) {
        return alltoallv_terms(group, {send_counts, send_type}, {recv_counts, recv_type}, in_place);
      },
      [=](MPI_Request* real) {
        return PMPI_Ialltoallv(send, send_counts, send_places, send_type, recv, recv_counts,
                               recv_places, recv_type, comm, real);
      });
}

int MPI_Ireduce_scatter(const void* send, void* recv, const int counts[], MPI_Datatype type,
                        MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group& group) {
        return reduce_scatter_terms(group, {counts, type}, op);
      },
      [=](MPI_Request* real) {
        return PMPI_Ireduce_scatter(send, recv, counts, type, op, comm, real);
      });
}

int MPI_Ireduce_scatter_block(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return reduce_terms("reduce_scatter", {count, type}, op);
      },
      [=](MPI_Request* real) {
        return PMPI_Ireduce_scatter_block(send, recv, count, type, op, comm, real);
      });
}

int MPI_Iscan(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
              MPI_Request* request) {
  return nonblocking(
      comm, request,
      [&](const Group&) {
        return reduce_terms("scan", {count, type}, op);
      },
      [=](MPI_Request* real) { return PMPI_Iscan(send, recv, count, type, op, comm, real); });
}

}  // extern "C"
