// recorded_communicator: the ring of one rank's last operations, and the decorator that fills it.
#include "comm/recorded_communicator.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace shardproof {

namespace {

using State = FlightRecord::State;

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

// Collectives of a group share one numbering; messages are numbered per (direction, peer, tag).
std::string numbering(const FlightRecord& record) {
  if (!is_message(record.kind)) return record.group;
  return record.group + " " + std::string(shardproof::name(record.kind)) + " " +
         std::to_string(record.peer) + " " + std::to_string(record.tag);
}

OperationRecord::State state_of(State state) {
  switch (state) {
    case State::started:
      return OperationRecord::State::started;
    case State::completed:
      return OperationRecord::State::completed;
    default:
      return OperationRecord::State::failed;
  }
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

OperationRecord operation_of(const FlightRecord& record, const std::vector<int>& members,
                             Duration now) {
  OperationRecord operation;
  operation.group = record.group;
  operation.members = members;
  operation.sequence = record.sequence;
  operation.op = std::string(name(record.kind));
  const bool reduces = record.kind == CallKind::reduce || record.kind == CallKind::all_reduce ||
                       record.kind == CallKind::reduce_scatter;
  if (reduces) operation.reduce = std::string(name(record.op));
  if (record.kind != CallKind::barrier) operation.dtype = std::string(name(record.dtype));
  const auto peer = static_cast<std::size_t>(record.peer);
  const int world = record.peer >= 0 && peer < members.size() ? members[peer] : record.peer;
  (is_message(record.kind) ? operation.peer : operation.root) = world;
  if (record.kind != CallKind::barrier) {
    if (record.kind != CallKind::recv) operation.send_counts = {record.send_count};
    if (record.kind != CallKind::send) operation.recv_counts = {record.recv_count};
    auto& whole =
        record.kind == CallKind::all_gather ? operation.recv_counts : operation.send_counts;
    if (!record.shares.empty()) whole.assign(record.shares.begin(), record.shares.end());
  }
  operation.tag = record.tag;
  operation.asynchronous = record.asynchronous;
  operation.state = state_of(record.state);
  operation.waited = record.state == State::started && !record.asynchronous;
  operation.started_ago = seconds(now - record.started);
  if (operation.waited) operation.waited_for = operation.started_ago;
  if (record.state != State::started) operation.ended_ago = seconds(now - record.ended);
  return operation;
}

FlightRecord record_of(const Communicator& comm, const Call& call, bool asynchronous) {
  FlightRecord record;
  record.group = comm.group().name;
  record.kind = call.kind;
  record.op = call.op;
  record.dtype = call.dtype;
  record.send_count = call.send_elements(comm.rank());
  record.recv_count = call.recv_elements(comm.rank());
  const auto self = static_cast<std::size_t>(comm.rank());
  if (call.kind == CallKind::all_to_all && call.recv_counts[self] == 0) {
    record.recv_count += call.send_counts[self];
  }
  const bool shares = call.kind == CallKind::reduce_scatter || call.kind == CallKind::all_gather;
  const auto& counts = call.recv_counts;
  if (shares &&
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end()) {
    record.shares = counts;
  }
  record.peer = call.peer;
  record.tag = call.tag;
  record.asynchronous = asynchronous;
  return record;
}

class RecordedWork : public Work {
 public:
  RecordedWork(std::unique_ptr<Work> inner, std::shared_ptr<FlightRecorder> recorder,
               std::uint64_t id, Duration timeout)
      : inner_(std::move(inner)), recorder_(std::move(recorder)), id_(id), timeout_(timeout) {}
  ~RecordedWork() override {
    if (ended_) return;
    try {
      wait(Deadline::after(timeout_));
    } catch (const Error&) {  // recorded as failed; nobody else asked
    }
  }

  void wait(Deadline deadline) override {
    try {
      inner_->wait(deadline);
    } catch (...) {
      end(State::failed);
      throw;
    }
    end(State::completed);
  }
  bool done() const override { return inner_->done(); }

 private:
  void end(State state) {
    if (!std::exchange(ended_, true)) recorder_->end(id_, state);
  }
  std::unique_ptr<Work> inner_;
  std::shared_ptr<FlightRecorder> recorder_;
  const std::uint64_t id_;
  const Duration timeout_;
  bool ended_ = false;
};

}  // namespace

FlightRecorder::FlightRecorder(int world_rank, std::size_t capacity, Clock& clock)
    : world_rank_(world_rank), capacity_(capacity), clock_(clock) {
  SP_CHECK_LT(std::size_t{0}, capacity);
}

std::uint64_t FlightRecorder::begin(FlightRecord record) {
  std::lock_guard lock(mutex_);
  record.id = next_id_++;
  record.sequence = next_sequence_[numbering(record)]++;
  record.started = clock_.now();
  Count& count = counts_[{record.group, record.kind, record.dtype}];
  ++count.calls;
  count.elements += record.send_count;
  const std::uint64_t id = record.id;
  if (ring_.size() < capacity_) {
    ring_.push_back(std::move(record));
  } else {
    ring_[id % capacity_] = std::move(record);
  }
  return id;
}

void FlightRecorder::end(std::uint64_t id, FlightRecord::State state) {
  std::lock_guard lock(mutex_);
  SP_CHECK_LT(id, next_id_);
  FlightRecord& record = ring_[id % capacity_];
  if (record.id != id) return;  // overwritten since
  record.state = state;
  record.ended = clock_.now();
}

std::vector<FlightRecord> FlightRecorder::last() const {
  std::lock_guard lock(mutex_);
  std::vector<FlightRecord> records;
  const std::uint64_t held = ring_.size();
  for (std::uint64_t id = next_id_ - held; id < next_id_; ++id) {
    records.push_back(ring_[id % capacity_]);
  }
  return records;
}

void FlightRecorder::know(const Group& group) {
  std::lock_guard lock(mutex_);
  groups_[group.name] = group.world_ranks;
}

RankRecords FlightRecorder::records() const {
  RankRecords records;
  records.rank = world_rank_;
  const std::vector<FlightRecord> ring = last();
  std::lock_guard lock(mutex_);
  records.pulses = next_id_;
  const Duration now = clock_.now();
  for (const FlightRecord& record : ring) {
    const auto group = groups_.find(record.group);
    records.operations.push_back(
        operation_of(record, group == groups_.end() ? std::vector<int>() : group->second, now));
  }
  for (const auto& [group, ranks] : groups_) {  // of messages what the ring shows is counted
    if (const auto found = next_sequence_.find(group); found != next_sequence_.end()) {
      records.issued[group] = found->second;
    }
  }
  return records;
}

FlightRecorder::Counts FlightRecorder::take_counts() {
  std::lock_guard lock(mutex_);
  return std::exchange(counts_, {});
}

RecordedCommunicator::RecordedCommunicator(std::unique_ptr<Communicator> inner,
                                           std::shared_ptr<FlightRecorder> recorder)
    : ForwardingCommunicator(std::move(inner)), recorder_(std::move(recorder)) {
  SP_CHECK(recorder_ != nullptr, "a recorded communicator needs a recorder");
  recorder_->know(this->inner().group());
}

void RecordedCommunicator::run(const Call& call, Deadline deadline) {
  const std::uint64_t id = recorder_->begin(record_of(inner(), call, false));
  try {
    inner().run(call, deadline);
  } catch (...) {
    recorder_->end(id, State::failed);
    throw;
  }
  recorder_->end(id, State::completed);
}

std::unique_ptr<Work> RecordedCommunicator::start(const Call& call, Keep keep) {
  const std::uint64_t id = recorder_->begin(record_of(inner(), call, true));
  std::unique_ptr<Work> work;
  try {
    work = inner().start(call, std::move(keep));
  } catch (...) {
    recorder_->end(id, State::failed);
    throw;
  }
  return std::make_unique<RecordedWork>(std::move(work), recorder_, id, timeout());
}

std::unique_ptr<Communicator> RecordedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<RecordedCommunicator>(std::move(child), recorder_);
}

}  // namespace shardproof
