// messages: MPI's matching rules over announcements.
#include "harness/interpose/messages.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "comm/sides.h"

namespace shardproof::interpose {
namespace {

struct Announcement {
  Envelope envelope;
  MPI_Request request = MPI_REQUEST_NULL;
};

std::list<Announcement>& announcements() {
  static std::list<Announcement> under_way;
  return under_way;
}

void drop_sent() {
  announcements().remove_if([](Announcement& each) {
    int sent = 0;
    PMPI_Test(&each.request, &sent, MPI_STATUS_IGNORE);
    return sent != 0;
  });
}

void announce(const Group& group, const Signature& what, std::uint64_t bytes, int to, int tag) {
  drop_sent();
  Announcement& each = announcements().emplace_back();
  each.envelope = {tag, {}, bytes, what.hash, what.length, what.power, what.kind};
  std::strncpy(each.envelope.dtype, what.dtype.c_str(), sizeof each.envelope.dtype - 1);
  PMPI_Isend(&each.envelope, sizeof each.envelope, MPI_BYTE, to, envelope_tag, group.control,
             &each.request);
}

int world_rank(const Group& group, int rank) {
  const bool known = rank >= 0 && rank < group.size;
  return known ? group.world_ranks[static_cast<std::size_t>(rank)] : -1;
}

// Types and counts of a message's ends may differ (a receiver may expect more), so that they are
// no part of the record.
OperationRecord record_of(const Group& group, const char* op, int peer, int tag) {
  OperationRecord record;
  record.group = group.name;
  record.op = op;
  record.peer = peer < 0 ? -1 : world_rank(group, peer);
  record.tag = tag < 0 ? -1 : tag;
  return record;
}

bool fits_receive(const Arrived& sent, int source, int tag) {
  return (source == MPI_ANY_SOURCE || source == sent.source) &&
         (tag == MPI_ANY_TAG || tag == sent.envelope.tag);
}

void begin(Session& all, const std::shared_ptr<Receive>& receive, const Arrived& sent) {
  Group& group = *receive->group;
  all.recorder.matched(receive->record, world_rank(group, sent.source), sent.envelope.tag);
  compare(all, group, sent, receive->type, receive->count, receive->record);
  receive->code = PMPI_Irecv(receive->buffer, receive->count, receive->type, sent.source,
                             sent.envelope.tag, group.comm, &receive->real);
  group.mailbox->matched.push_back(receive);
}

void deliver(Session& all, Group& group, const Arrived& sent) {
  auto& posted = group.mailbox->posted;
  const auto taker = std::find_if(posted.begin(), posted.end(), [&](const auto& each) {
    return fits_receive(sent, each->source, each->tag);
  });
  if (taker == posted.end()) {
    group.mailbox->arrived.push_back(sent);
    return;
  }
  const std::shared_ptr<Receive> receive = *taker;
  posted.erase(taker);
  begin(all, receive, sent);
}

void take_announcements(Session& all, Group& group) {
  for (;;) {
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    PMPI_Improbe(MPI_ANY_SOURCE, envelope_tag, group.control, &there, &message, &status);
    if (there == 0) return;
    Arrived sent{status.MPI_SOURCE, {}};
    PMPI_Mrecv(&sent.envelope, sizeof sent.envelope, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    deliver(all, group, sent);
  }
}

bool ended(Session& all, Receive& receive) {
  int flag = 1;
  if (receive.code == MPI_SUCCESS) {
    receive.code = PMPI_Test(&receive.real, &flag, &receive.status);
  }
  if (flag == 0) return false;
  receive.done = true;
  all.recorder.end(receive.record, receive.code == MPI_SUCCESS);
  if (receive.handle != MPI_REQUEST_NULL) PMPI_Grequest_complete(receive.handle);
  return true;
}

// ---- the program's request of a receive ----

using Kept = std::shared_ptr<Receive>;

int query(void* state, MPI_Status* status) {
  const Receive& receive = **static_cast<Kept*>(state);
  *status = receive.status;
  if (!receive.cancelled) return receive.code;
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 1);
  return MPI_SUCCESS;
}

int release(void* state) {
  delete static_cast<Kept*>(state);
  return MPI_SUCCESS;
}

// A receive that was matched is not taken back.
int cancel(void* state, int complete) {
  const Kept receive = *static_cast<Kept*>(state);
  Session* const all = session();
  if (complete != 0 || all == nullptr) return MPI_SUCCESS;
  const std::lock_guard lock(all->mutex);
  auto& posted = receive->group->mailbox->posted;
  const auto found = std::find(posted.begin(), posted.end(), receive);
  if (found == posted.end()) return MPI_SUCCESS;
  posted.erase(found);
  receive->cancelled = receive->done = true;
  all->recorder.withdraw(receive->record);
  PMPI_Grequest_complete(receive->handle);
  return MPI_SUCCESS;
}

}  // namespace

void compare(Session& all, const Group& group, const Arrived& sent, MPI_Datatype type, int count,
             std::uint64_t record) {
  const Envelope& envelope = sent.envelope;
  const Signature of_sender{envelope.hash, envelope.length, envelope.power, envelope.kind,
                            envelope.dtype};
  if (fits(of_sender, envelope.bytes, type, count)) return;
  const Signature expected = signature_of(type, count);
  const auto words = [](const Signature& each) { return each.dtype.empty() ? "none" : each.dtype; };
  const int from = world_rank(group, sent.source), self = group.world_rank();
  std::string found = sides("dtype", {{from, words(of_sender)}, {self, words(expected)}});
  if (of_sender.length > expected.length) {
    const std::string count_line = sides("count", {{from, std::to_string(of_sender.length)},
                                                   {self, std::to_string(expected.length)}});
    found += (found.empty() ? "" : ", ") + count_line;
  }
  if (found.empty()) found = "the order of mixed types differs";
  say(fmt::format("rank {}: mismatch: {}: {}; nothing was written", all.rank,
                  all.recorder.place_of(record), found));
  all.recorder.end(record, false);
  give_up(mismatch_code);
}

void move_messages(Session& all, Group& group) {
  take_announcements(all, group);
  group.mailbox->matched.remove_if([&](const auto& each) { return ended(all, *each); });
}

int send_packed(Session& all, const std::shared_ptr<Group>& group, const void* buffer, int bytes,
                const Signature& of, int to, int tag, MPI_Request* request, std::uint64_t* record) {
  const std::lock_guard lock(all.mutex);
  *record = all.recorder.begin(record_of(*group, "send", to, tag));
  announce(*group, of, static_cast<std::uint64_t>(bytes), to, tag);
  return PMPI_Isend(buffer, bytes, MPI_PACKED, to, tag, group->comm, request);
}

int send(Session& all, const std::shared_ptr<Group>& group, const void* buffer, int count,
         MPI_Datatype type, int to, int tag, SendKind kind, MPI_Request* request,
         std::uint64_t* record) {
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  const std::lock_guard lock(all.mutex);
  *record = all.recorder.begin(record_of(*group, "send", to, tag));
  announce(*group, signature_of(type, count),
           static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(count), to, tag);
  switch (kind) {
    case SendKind::synchronous:
      return PMPI_Issend(buffer, count, type, to, tag, group->comm, request);
    case SendKind::buffered:
      return PMPI_Ibsend(buffer, count, type, to, tag, group->comm, request);
    default:
      return PMPI_Isend(buffer, count, type, to, tag, group->comm, request);
  }
}

std::shared_ptr<Receive> post(Session& all, const std::shared_ptr<Group>& group, void* buffer,
                              int count, MPI_Datatype type, int from, int tag) {
  auto receive = std::make_shared<Receive>();
  receive->buffer = buffer;
  receive->count = count;
  receive->type = type;
  receive->source = from;
  receive->tag = tag;
  receive->group = group;
  const std::lock_guard lock(all.mutex);
  receive->record = all.recorder.begin(record_of(*group, "recv", from, tag));
  Arrived sent;
  if (probe(all, *group, from, tag, true, &sent)) {
    begin(all, receive, sent);
  } else {
    group->mailbox->posted.push_back(receive);
  }
  return receive;
}

int start_receive(Session& all, const std::shared_ptr<Receive>& receive, MPI_Request* request) {
  const std::lock_guard lock(all.mutex);
  const int code = PMPI_Grequest_start(query, release, cancel, new Kept(receive), &receive->handle);
  *request = receive->handle;
  all.records[*request] = receive->record;
  return code;
}

bool probe(Session& all, Group& group, int from, int tag, bool take, Arrived* found) {
  const std::lock_guard lock(all.mutex);
  take_announcements(all, group);
  auto& arrived = group.mailbox->arrived;
  const auto first = std::find_if(arrived.begin(), arrived.end(), [&](const Arrived& each) {
    return fits_receive(each, from, tag);
  });
  if (first == arrived.end()) return false;
  *found = *first;
  if (take) arrived.erase(first);
  return true;
}

void set_status(const Arrived& found, MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  *status = MPI_Status{};
  status->MPI_SOURCE = found.source;
  status->MPI_TAG = found.envelope.tag;
  status->MPI_ERROR = MPI_SUCCESS;
  PMPI_Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(found.envelope.bytes));
}

void finish_envelopes() {
  const Deadline limit = Deadline::after(std::chrono::seconds(1));
  for (drop_sent(); !announcements().empty() && !limit.expired(); drop_sent()) sched_yield();
}

void refuse(const char* call) {
  Session* const all = session();
  if (all == nullptr || !all->settings.messages) return;
  say(
      fmt::format("rank {}: {} is not covered by envelopes; expected a program without it, or "
                  "SHARDPROOF_MPI_MESSAGES=0",
                  all->rank, call));
  give_up(refused_code);
}

}  // namespace shardproof::interpose
