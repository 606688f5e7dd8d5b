// clean: an MPI program of somebody else that makes no mistake, in many ways: all collectives, in
// place, derived datatypes that differ but mean the same, wildcards, probes, null ranks, itself,
// nonblocking calls in flight, empty parts, sub-communicators. Prints one checksum a rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { n = 12, large = 100000 };
static int rank, size;
static double check;

static void add(const double* data, int count) {
  for (int i = 0; i < count; ++i) check = 0.999 * check + data[i];
}

static void fill(double* data, int count, int seed) {
  for (int i = 0; i < count; ++i) data[i] = (rank + 1) * 0.1 + i * 0.01 + seed;
}

static void reductions(MPI_Comm comm) {
  double in[n], out[n];
  int r, p;
  MPI_Comm_rank(comm, &r);
  MPI_Comm_size(comm, &p);
  fill(in, n, 1);
  MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, comm), add(out, n);
  MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_DOUBLE, MPI_MAX, comm), add(in, n);
  memset(out, 0, sizeof out);
  MPI_Reduce(r == 0 ? MPI_IN_PLACE : in, r == 0 ? in : NULL, n, MPI_DOUBLE, MPI_PROD, 0, comm);
  MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_MIN, p - 1, comm), add(out, n);
  MPI_Scan(in, out, n, MPI_DOUBLE, MPI_SUM, comm), add(out, n);
  memset(out, 0, sizeof out);
  MPI_Exscan(in, out, n, MPI_DOUBLE, MPI_SUM, comm), add(out, r == 0 ? 0 : n);
  int* counts = malloc(p * sizeof(int));
  for (int i = 0; i < p; ++i) counts[i] = i;
  double* many = malloc((n + p * p) * sizeof(double));
  fill(many, n + p * p, 2);
  MPI_Reduce_scatter(many, out, counts, MPI_DOUBLE, MPI_SUM, comm), add(out, r);
  MPI_Reduce_scatter_block(many, out, 1, MPI_DOUBLE, MPI_SUM, comm), add(out, 1);
  struct {
    double value;
    int at;
  } mine = {in[0], r}, best;
  MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
  check += best.at;
  free(counts), free(many);
}

// The root has vectors and structs, the others plain doubles: the same sequence of types.
static void derived(void) {
  MPI_Datatype pairs, column, mixed, ints;
  double data[4 * n];
  fill(data, 4 * n, 3);
  MPI_Type_contiguous(2, MPI_DOUBLE, &pairs);
  MPI_Type_vector(n, 1, 4, MPI_DOUBLE, &column);
  MPI_Type_commit(&pairs), MPI_Type_commit(&column);
  if (rank == 0) MPI_Bcast(data, 1, column, 0, MPI_COMM_WORLD);
  if (rank == 1) MPI_Bcast(data, n / 2, pairs, 0, MPI_COMM_WORLD);
  if (rank > 1) MPI_Bcast(data, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  add(data, n);
  struct item {
    int id;
    double value;
  } items[3] = {{rank, 0.5}, {rank + 1, 1.5}, {rank + 2, 2.5}};
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {0, (char*)&items[0].value - (char*)&items[0].id};
  const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
  MPI_Type_create_struct(2, lengths, places, types, &ints);
  MPI_Type_create_resized(ints, 0, sizeof(struct item), &mixed);
  MPI_Type_commit(&mixed);
  MPI_Bcast(items, 3, mixed, size - 1, MPI_COMM_WORLD);
  check += items[2].id + items[1].value;
  if (rank == 0) MPI_Send(items, 2, mixed, 1, 9, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(items, 3, mixed, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&mixed), MPI_Type_free(&ints), MPI_Type_free(&column), MPI_Type_free(&pairs);
}

static void gathers(void) {
  double in[n], *all = calloc((size_t)size * n, sizeof(double));
  int *counts = calloc((size_t)size, sizeof(int)), *places = calloc((size_t)size, sizeof(int));
  fill(in, n, 4);
  for (int i = 0; i < size; ++i) counts[i] = i % n, places[i] = i * n;  // rank 0: nothing
  MPI_Gather(in, n, MPI_DOUBLE, all, n, MPI_DOUBLE, 1, MPI_COMM_WORLD), add(all, size * n);
  MPI_Gatherv(in, counts[rank], MPI_DOUBLE, all, counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Scatter(all, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD), add(in, n);
  MPI_Scatter(all, 2, MPI_DOUBLE, rank == 1 ? MPI_IN_PLACE : in, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  MPI_Scatterv(all, counts, places, MPI_DOUBLE, in, counts[rank], MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Allgather(in, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD), add(all, size);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Allgatherv(in, counts[rank], MPI_DOUBLE, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
  add(all, size * n);
  double* sent = calloc((size_t)size * n, sizeof(double));
  fill(sent, size * n, 5);
  MPI_Alltoall(sent, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, MPI_COMM_WORLD), add(all, 2 * size);
  int *sends = calloc((size_t)size, sizeof(int)), *recvs = calloc((size_t)size, sizeof(int));
  for (int i = 0; i < size; ++i) sends[i] = (rank + 2 * i) % 3, recvs[i] = (i + 2 * rank) % 3;
  MPI_Alltoallv(sent, sends, places, MPI_DOUBLE, all, recvs, places, MPI_DOUBLE, MPI_COMM_WORLD);
  add(all, size * n);
  free(all), free(counts), free(places), free(sent), free(sends), free(recvs);
}

// More is expected than sent; sizes are asked before; two of one tag keep their order.
static void messages(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  double in[n], out[n], *much, *got;
  MPI_Status status;
  int count, flag = 0;
  much = malloc(large * sizeof(double)), got = malloc(large * sizeof(double));
  fill(in, n, 6), fill(much, large, 7);
  MPI_Sendrecv(much, large, MPI_DOUBLE, next, 1, got, large, MPI_DOUBLE, before, 1, MPI_COMM_WORLD,
               &status);
  add(got, large);
  MPI_Sendrecv_replace(in, n, MPI_DOUBLE, next, 2, before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  add(in, n), check += status.MPI_TAG;
  MPI_Sendrecv(in, 3, MPI_DOUBLE, rank, 3, out, n, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_DOUBLE, &count), check += count;
  MPI_Sendrecv(in, 3, MPI_DOUBLE, MPI_PROC_NULL, 3, out, n, MPI_DOUBLE, MPI_PROC_NULL, 3,
               MPI_COMM_WORLD, &status);
  if (rank != 0) {
    for (int i = 0; i < 3; ++i) MPI_Send(in, i + 1, MPI_DOUBLE, 0, 10 + i % 2, MPI_COMM_WORLD);
    MPI_Ssend(much, large, MPI_DOUBLE, 0, 12, MPI_COMM_WORLD);
    MPI_Send(in, 0, MPI_DOUBLE, 0, 13, MPI_COMM_WORLD);
  } else {
    MPI_Request wild, second;
    double sum = 0;
    MPI_Irecv(out, n, MPI_DOUBLE, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &wild);
    MPI_Irecv(got, large, MPI_DOUBLE, size - 1, 12, MPI_COMM_WORLD, &second);
    MPI_Wait(&wild, &status), MPI_Get_count(&status, MPI_DOUBLE, &count), check += count;
    for (int i = 0; i < 2 * (size - 1); ++i) {
      MPI_Probe(MPI_ANY_SOURCE, 10, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_DOUBLE, &count);
      MPI_Recv(in, count, MPI_DOUBLE, status.MPI_SOURCE, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      sum += count * 100;
    }
    while (!flag) MPI_Test(&second, &flag, &status);
    add(got, large);
    for (int i = 1; i < size - 1; ++i) {
      MPI_Recv(out, n, MPI_DOUBLE, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &status);
      MPI_Recv(got, large, MPI_DOUBLE, MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 1; i < size; ++i) {
      do MPI_Iprobe(i, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
      while (!flag);
      MPI_Get_count(&status, MPI_BYTE, &count), check += count + status.MPI_TAG;
      MPI_Recv(NULL, 0, MPI_DOUBLE, i, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    check += sum;
  }
  free(much), free(got);
}

static void requests(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  double in[n], a[n], b[n], c[n], all[n];
  MPI_Request each[6];
  MPI_Status status;
  int index, done, indices[6], flag = 0;
  fill(in, n, 8);
  MPI_Irecv(a, n, MPI_DOUBLE, before, 21, MPI_COMM_WORLD, &each[0]);
  MPI_Irecv(b, n, MPI_DOUBLE, before, 21, MPI_COMM_WORLD, &each[1]);
  MPI_Iallreduce(in, all, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &each[2]);
  MPI_Ibarrier(MPI_COMM_WORLD, &each[3]);
  MPI_Isend(in, n, MPI_DOUBLE, next, 21, MPI_COMM_WORLD, &each[4]);
  MPI_Isend(in, n / 2, MPI_DOUBLE, next, 21, MPI_COMM_WORLD, &each[5]);
  for (int left = 6; left > 3; --left) MPI_Waitany(6, each, &index, &status);
  MPI_Waitall(6, each, MPI_STATUSES_IGNORE);
  add(a, n), add(b, n / 2), add(all, n);
  MPI_Ibcast(in, n, MPI_DOUBLE, 0, MPI_COMM_WORLD, &each[0]);
  MPI_Bcast(all, n, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  MPI_Irecv(c, n, MPI_DOUBLE, rank, 99, MPI_COMM_WORLD, &each[1]);  // never sent
  MPI_Cancel(&each[1]);
  MPI_Waitsome(2, each, &done, indices, MPI_STATUSES_IGNORE);
  MPI_Waitall(2, each, MPI_STATUSES_IGNORE);
  MPI_Irecv(c, n, MPI_DOUBLE, before, 22, MPI_COMM_WORLD, &each[0]);
  MPI_Send(in, n, MPI_DOUBLE, next, 22, MPI_COMM_WORLD);
  while (!flag) MPI_Testall(1, each, &flag, MPI_STATUSES_IGNORE);
  add(in, n), add(c, n);
  MPI_Waitany(1, each, &index, &status), check += index == MPI_UNDEFINED;
  MPI_Message message;
  MPI_Isend(in, n, MPI_DOUBLE, next, 23, MPI_COMM_WORLD, &each[0]);
  MPI_Mprobe(before, 23, MPI_COMM_WORLD, &message, &status);
  MPI_Mrecv(c, n, MPI_DOUBLE, &message, &status), add(c, n);
  MPI_Wait(&each[0], MPI_STATUS_IGNORE);
}

static void communicators(void) {
  MPI_Comm half, copy, some, ring;
  MPI_Group all, few;
  const int first = 0, periodic = 1;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  reductions(half);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 0, 0, &some);
  if (some != MPI_COMM_NULL) reductions(some), MPI_Comm_free(&some);
  MPI_Comm_dup(half, &copy), reductions(copy);
  MPI_Comm_group(MPI_COMM_WORLD, &all), MPI_Group_incl(all, 1, &first, &few);
  MPI_Comm_create(MPI_COMM_WORLD, few, &some);
  if (some != MPI_COMM_NULL) MPI_Barrier(some), MPI_Comm_free(&some);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring), reductions(ring);
  MPI_Comm_split_type(ring, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &some), reductions(some);
  MPI_Comm_free(&some), MPI_Comm_free(&copy), MPI_Comm_free(&half), MPI_Comm_free(&ring);
  MPI_Group_free(&few), MPI_Group_free(&all);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 3; ++round) {
    reductions(MPI_COMM_WORLD), reductions(MPI_COMM_SELF);
    derived(), gathers(), messages(), requests(), communicators();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  printf("rank %d: %a\n", rank, check);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
