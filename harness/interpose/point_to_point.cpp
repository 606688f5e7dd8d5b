// point_to_point: MPI's messages. Every blocking one is a nonblocking one and a loop of tests.
#include <vector>

#include "harness/interpose/calls.h"
#include "harness/interpose/messages.h"

using namespace shardproof::interpose;

namespace {

bool tested(MPI_Request& request, int& code) {
  int flag = 0;
  code = PMPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  return flag != 0 || code != MPI_SUCCESS;
}

void finish_send(std::uint64_t record, MPI_Request request, int& code) {
  Session& all = *session();
  if (code == MPI_SUCCESS) stand_until(all, record, [&] { return tested(request, code); });
  all.recorder.end(record, code == MPI_SUCCESS);
}

void finish_receive(const std::shared_ptr<Receive>& receive, MPI_Status* status, int& code) {
  stand_until(*session(), receive->record, [&] { return receive->done; });
  code = receive->code;
  if (status != MPI_STATUS_IGNORE) *status = receive->status;
}

int blocking_send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  SendKind kind, int (*plain)(const void*, int, MPI_Datatype, int, int, MPI_Comm)) {
  const auto group = message_group(comm);
  if (group == nullptr || to == MPI_PROC_NULL) return plain(data, count, type, to, tag, comm);
  MPI_Request request = MPI_REQUEST_NULL;
  std::uint64_t record = 0;
  int code = send(*session(), group, data, count, type, to, tag, kind, &request, &record);
  finish_send(record, request, code);
  return code;
}

int nonblocking_send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                     MPI_Request* request, SendKind kind,
                     int (*plain)(const void*, int, MPI_Datatype, int, int, MPI_Comm,
                                  MPI_Request*)) {
  const auto group = message_group(comm);
  if (group == nullptr || to == MPI_PROC_NULL) {
    return plain(data, count, type, to, tag, comm, request);
  }
  Session& all = *session();
  const std::lock_guard lock(all.mutex);
  std::uint64_t record = 0;
  const int code = send(all, group, data, count, type, to, tag, kind, request, &record);
  if (code == MPI_SUCCESS) all.records[*request] = record;
  return code;
}

// Probes are not operations of their own: whoever receives the message is.
void wait_for_message(const std::shared_ptr<Group>& group, int from, int tag, bool take,
                      Arrived* found) {
  Session& all = *session();
  shardproof::OperationRecord record;
  record.group = group->name;
  record.op = "recv";
  const bool known = from >= 0 && from < group->size;
  record.peer = known ? group->world_ranks[static_cast<std::size_t>(from)] : -1;
  record.tag = tag == MPI_ANY_TAG ? -1 : tag;
  const std::uint64_t id = all.recorder.begin(std::move(record), false);
  stand_until(all, id, [&] { return probe(all, *group, from, tag, take, found); });
  all.recorder.end(id);
}

// A message that was taken with its probe is received, whatever reads it.
void record_taken(const Group& group, const Arrived& found) {
  shardproof::OperationRecord record;
  record.group = group.name;
  record.op = "recv";
  record.peer = group.world_ranks[static_cast<std::size_t>(found.source)];
  record.tag = found.envelope.tag;
  Recorder& recorder = session()->recorder;
  recorder.end(recorder.begin(std::move(record)));
}

}  // namespace

extern "C" {

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return blocking_send(data, count, type, to, tag, comm, SendKind::standard, PMPI_Send);
}

int MPI_Ssend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return blocking_send(data, count, type, to, tag, comm, SendKind::synchronous, PMPI_Ssend);
}

int MPI_Bsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return blocking_send(data, count, type, to, tag, comm, SendKind::buffered, PMPI_Bsend);
}

// The receive is posted here, and not yet with MPI: ready mode would be a lie.
int MPI_Rsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  return blocking_send(data, count, type, to, tag, comm, SendKind::standard, PMPI_Rsend);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return nonblocking_send(data, count, type, to, tag, comm, request, SendKind::standard,
                          PMPI_Isend);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return nonblocking_send(data, count, type, to, tag, comm, request, SendKind::synchronous,
                          PMPI_Issend);
}

int MPI_Ibsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return nonblocking_send(data, count, type, to, tag, comm, request, SendKind::buffered,
                          PMPI_Ibsend);
}

int MPI_Irsend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
               MPI_Request* request) {
  return nonblocking_send(data, count, type, to, tag, comm, request, SendKind::standard,
                          PMPI_Irsend);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) {
    return PMPI_Recv(data, count, type, from, tag, comm, status);
  }
  int code = MPI_SUCCESS;
  finish_receive(post(*session(), group, data, count, type, from, tag), status, code);
  return code;
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) {
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
  }
  Session& all = *session();
  const std::lock_guard lock(all.mutex);  // not to end before it has its request
  return start_receive(all, post(all, group, data, count, type, from, tag), request);
}

int MPI_Sendrecv(const void* send_data, int send_count, MPI_Datatype send_type, int to,
                 int send_tag, void* recv_data, int recv_count, MPI_Datatype recv_type, int from,
                 int recv_tag, MPI_Comm comm, MPI_Status* status) {
  if (message_group(comm) == nullptr) {
    return PMPI_Sendrecv(send_data, send_count, send_type, to, send_tag, recv_data, recv_count,
                         recv_type, from, recv_tag, comm, status);
  }
  MPI_Request sending = MPI_REQUEST_NULL;
  int code = MPI_Isend(send_data, send_count, send_type, to, send_tag, comm, &sending);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Recv(recv_data, recv_count, recv_type, from, recv_tag, comm, status);
  const int sent = MPI_Wait(&sending, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS ? code : sent;
}

int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int send_tag, int from,
                         int recv_tag, MPI_Comm comm, MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr) {
    return PMPI_Sendrecv_replace(data, count, type, to, send_tag, from, recv_tag, comm, status);
  }
  if (to == MPI_PROC_NULL) return MPI_Recv(data, count, type, from, recv_tag, comm, status);
  int bytes = 0, at = 0;
  PMPI_Pack_size(count, type, comm, &bytes);
  std::vector<char> packed(static_cast<std::size_t>(bytes) + 1);
  PMPI_Pack(data, count, type, packed.data(), bytes, &at, comm);
  MPI_Request sending = MPI_REQUEST_NULL;
  std::uint64_t record = 0;
  int sent = send_packed(*session(), group, packed.data(), at, signature_of(type, count), to,
                         send_tag, &sending, &record);
  const int code = MPI_Recv(data, count, type, from, recv_tag, comm, status);
  finish_send(record, sending, sent);
  return code != MPI_SUCCESS ? code : sent;
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) return PMPI_Probe(from, tag, comm, status);
  Arrived found;
  wait_for_message(group, from, tag, false, &found);
  set_status(found, status);
  return MPI_SUCCESS;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) {
    return PMPI_Iprobe(from, tag, comm, flag, status);
  }
  progress(*session());
  Arrived found;
  *flag = probe(*session(), *group, from, tag, false, &found) ? 1 : 0;
  if (*flag != 0) set_status(found, status);
  return MPI_SUCCESS;
}

// The message itself is right behind its announcement. What it is received into is not compared.
int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) {
    return PMPI_Mprobe(from, tag, comm, message, status);
  }
  Arrived found;
  wait_for_message(group, from, tag, true, &found);
  record_taken(*group, found);
  return PMPI_Mprobe(found.source, found.envelope.tag, comm, message, status);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
                MPI_Status* status) {
  const auto group = message_group(comm);
  if (group == nullptr || from == MPI_PROC_NULL) {
    return PMPI_Improbe(from, tag, comm, flag, message, status);
  }
  progress(*session());
  Arrived found;
  *flag = probe(*session(), *group, from, tag, true, &found) ? 1 : 0;
  if (*flag == 0) return MPI_SUCCESS;
  record_taken(*group, found);
  return PMPI_Mprobe(found.source, found.envelope.tag, comm, message, status);
}

// ---- not covered ----

int MPI_Send_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  refuse("MPI_Send_init");
  return PMPI_Send_init(data, count, type, to, tag, comm, request);
}

int MPI_Ssend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  refuse("MPI_Ssend_init");
  return PMPI_Ssend_init(data, count, type, to, tag, comm, request);
}

int MPI_Bsend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  refuse("MPI_Bsend_init");
  return PMPI_Bsend_init(data, count, type, to, tag, comm, request);
}

int MPI_Rsend_init(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                   MPI_Request* request) {
  refuse("MPI_Rsend_init");
  return PMPI_Rsend_init(data, count, type, to, tag, comm, request);
}

int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  refuse("MPI_Recv_init");
  return PMPI_Recv_init(data, count, type, from, tag, comm, request);
}

#if MPI_VERSION >= 4 || defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5
int MPI_Isendrecv(const void* send_data, int send_count, MPI_Datatype send_type, int to,
                  int send_tag, void* recv_data, int recv_count, MPI_Datatype recv_type, int from,
                  int recv_tag, MPI_Comm comm, MPI_Request* request) {
  refuse("MPI_Isendrecv");
  return PMPI_Isendrecv(send_data, send_count, send_type, to, send_tag, recv_data, recv_count,
                        recv_type, from, recv_tag, comm, request);
}

int MPI_Isendrecv_replace(void* data, int count, MPI_Datatype type, int to, int send_tag, int from,
                          int recv_tag, MPI_Comm comm, MPI_Request* request) {
  refuse("MPI_Isendrecv_replace");
  return PMPI_Isendrecv_replace(data, count, type, to, send_tag, from, recv_tag, comm, request);
}
#endif

}  // extern "C"
