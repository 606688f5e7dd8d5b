// messages: point to point with envelopes. A sender announces each message on the control
// communicator, in the order of its sends: tag, bytes and the signature of its types. Receives of
// the program are matched with these announcements here, by MPI's rules (in posted order, per
// sender in sent order), and only then does MPI's own receive begin, from that sender and tag: so
// types are compared before a buffer is written, wildcards included, and probes answer from the
// announcements. Not covered, and refused where envelopes are on: persistent requests
// and MPI_Isendrecv (SHARDPROOF_MPI_MESSAGES=0 lets them through, unverified). Cancelling a send is
// ignored. Thread rule: as session.h.
#pragma once

#include <mpi.h>

#include <deque>
#include <list>
#include <memory>

#include "harness/interpose/session.h"
#include "harness/interpose/signature.h"

namespace shardproof::interpose {

struct Envelope {
  std::int32_t tag = 0;
  char dtype[12] = {};
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0, length = 0, power = 0, kind = 0;
};

struct Arrived {
  int source = 0;
  Envelope envelope;
};

struct Receive {
  void* buffer = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int source = 0, tag = 0;  // as asked
  std::shared_ptr<Group> group;
  std::uint64_t record = 0;
  MPI_Request real = MPI_REQUEST_NULL;
  MPI_Request handle = MPI_REQUEST_NULL;  // the program's; null: it waits in MPI_Recv
  MPI_Status status{};
  int code = MPI_SUCCESS;
  bool done = false, cancelled = false;
};

struct Mailbox {
  std::deque<Arrived> arrived;                  // announced, and asked by nobody yet
  std::list<std::shared_ptr<Receive>> posted;   // asked, and announced by nobody yet
  std::list<std::shared_ptr<Receive>> matched;  // MPI's own receive is under way
  bool waits() const { return !posted.empty() || !matched.empty(); }
};

void move_messages(Session& all, Group& group);

enum class SendKind { standard, synchronous, buffered };
// `record`: of the operation.
int send(Session& all, const std::shared_ptr<Group>& group, const void* buffer, int count,
         MPI_Datatype type, int to, int tag, SendKind kind, MPI_Request* request,
         std::uint64_t* record);
// The same, of bytes that were packed from `count` elements of `type`.
int send_packed(Session& all, const std::shared_ptr<Group>& group, const void* buffer, int bytes,
                const Signature& of, int to, int tag, MPI_Request* request, std::uint64_t* record);
std::shared_ptr<Receive> post(Session& all, const std::shared_ptr<Group>& group, void* buffer,
                              int count, MPI_Datatype type, int from, int tag);
int start_receive(Session& all, const std::shared_ptr<Receive>& receive, MPI_Request* request);
// The first announced message that fits; `take` removes it. Null: there is none.
bool probe(Session& all, Group& group, int from, int tag, bool take, Arrived* found);
void set_status(const Arrived& found, MPI_Status* status);
// The receiver's types against the sender's; does not return when they differ.
void compare(Session& all, const Group& group, const Arrived& sent, MPI_Datatype type, int count,
             std::uint64_t record);
void finish_envelopes();  // before MPI_Finalize
// Ends the job where envelopes are on: what is not covered would spoil the matching.
void refuse(const char* call);

}  // namespace shardproof::interpose
