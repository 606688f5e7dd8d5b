// mistakes: an MPI program of somebody else. mistakes NAME [ELEMENTS [SECONDS]] makes one mistake,
// on rank 1 mostly; without it, none. Ends by SIGALRM after so many seconds.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, count;
static const char* mistake;
static float *in, *out;

static int here(const char* name) { return rank == 1 && strcmp(mistake, name) == 0; }
static int is(const char* name) { return strcmp(mistake, name) == 0; }

static float input(int r, int i) { return (float)(r + 1 + i % 7); }

// 0: all is right
static int check_sum(void) {
  for (int i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < size; ++r) sum += input(r, i);
    if (out[i] != sum) return 1;
  }
  return 0;
}

static int check_root(const float* data) {
  for (int i = 0; i < count; ++i) {
    if (data[i] != input(0, i)) return 1;
  }
  return 0;
}

static void all_reduce(void) {
  MPI_Allreduce(in, out, here("count") ? count - 1 : count, here("dtype") ? MPI_INT : MPI_FLOAT,
                here("op") ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
}

static int broadcast(void) {
  float* data = malloc(sizeof(float) * count);
  for (int i = 0; i < count; ++i) data[i] = rank == 0 ? input(0, i) : -1;
  MPI_Bcast(data, here("bcast_count") ? count - 1 : count, MPI_FLOAT, here("root") ? 1 : 0,
            MPI_COMM_WORLD);
  const int wrong = check_root(data);
  free(data);
  return wrong;
}

static int nonblocking(void) {
  MPI_Request requests[2];
  int one = rank, most = -1;
  MPI_Iallreduce(in, out, count, here("nonblocking") ? MPI_INT : MPI_FLOAT, MPI_SUM,
                 MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(&one, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  return check_sum() || most != size - 1;
}

static void exchange(void) {
  int* sends = calloc(size, sizeof(int));
  int* places = calloc(size, sizeof(int));
  int* recvs = calloc(size, sizeof(int));
  float* got = calloc(size * count + 1, sizeof(float));
  for (int r = 0; r < size; ++r) {
    sends[r] = recvs[r] = count / size;
    places[r] = r * (count / size);
  }
  if (here("split")) --recvs[2];
  MPI_Alltoallv(in, sends, places, MPI_FLOAT, got, recvs, places,
                here("pairs") ? MPI_INT : MPI_FLOAT, MPI_COMM_WORLD);
  free(sends), free(places), free(recvs), free(got);
}

static int message(void) {
  int wrong = 0;
  if (rank == 0) MPI_Send(in, count, MPI_FLOAT, 1, 6, MPI_COMM_WORLD);
  if (rank == 1) {
    for (int i = 0; i < count; ++i) out[i] = -1;
    MPI_Recv(out, here("length") ? count - 1 : count, here("type") ? MPI_INT : MPI_FLOAT, 0,
             here("tag") ? 7 : 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wrong = check_root(out);
  }
  return wrong;
}

static void circle(void) {
  MPI_Ssend(in, count, MPI_FLOAT, (rank + 1) % size, 3, MPI_COMM_WORLD);
  MPI_Recv(out, count, MPI_FLOAT, (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void persistent(void) {
  MPI_Request request;
  MPI_Recv_init(out, count, MPI_FLOAT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
}

static int run(void) {
  int wrong = 0;
  if (is("persistent")) persistent();
  if (is("circle")) circle();
  if (here("order")) wrong |= broadcast();
  if (!here("skip")) all_reduce();
  wrong |= here("skip") ? 0 : check_sum();
  if (!here("order")) wrong |= broadcast();
  wrong |= nonblocking();
  exchange();
  wrong |= message();
  if (here("loop")) {
    for (volatile int forever = 1; forever;) {
    }
  }
  if (here("late")) sleep(2);
  if (here("stop")) raise(SIGSTOP);
  if (here("exit")) return wrong;
  MPI_Barrier(MPI_COMM_WORLD);
  return wrong;
}

int main(int argc, char** argv) {
  mistake = argc > 1 ? argv[1] : "";
  count = argc > 2 ? atoi(argv[2]) : 6;
  MPI_Init(&argc, &argv);
  alarm(argc > 3 ? atoi(argv[3]) : 30);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  in = malloc(sizeof(float) * count);
  out = malloc(sizeof(float) * count);
  for (int i = 0; i < count; ++i) in[i] = input(rank, i);
  const int wrong = run();
  printf("rank %d: %s numbers\n", rank, wrong ? "wrong" : "right");
  fflush(stdout);
  MPI_Finalize();
  free(in), free(out);
  return 0;
}
