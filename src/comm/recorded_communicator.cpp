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

bool reduces(CallKind kind) {
  return kind == CallKind::reduce || kind == CallKind::all_reduce ||
         kind == CallKind::reduce_scatter;
}

std::tuple<std::string, CallKind, int, int> numbering(const FlightRecord& record) {
  if (!is_message(record.kind)) return {record.group, CallKind::barrier, 0, 0};
  return {record.group, record.kind, record.peer, record.tag};
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
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
    if (!ended_) recorder_->waits(id_);
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
    : world_rank_(world_rank), capacity_(capacity), clock_(clock), last_pulse_(clock.now()) {
  SP_CHECK_LT(std::size_t{0}, capacity);
}

std::uint64_t FlightRecorder::begin(FlightRecord record) {
  std::lock_guard lock(mutex_);
  record.id = next_id_++;
  record.sequence = next_sequence_[numbering(record)]++;
  record.started = clock_.now();
  record.at = at_;
  record.lane = lane();
  lane_of_group_[record.group] = record.lane;
  if (!record.asynchronous) {
    record.waited_since = record.started;
    waiting_.push_back(record.id);
  }
  pulse();
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
  std::erase(waiting_, id);
  pulse();
  FlightRecord& record = ring_[id % capacity_];
  if (record.id != id) return;  // overwritten since
  record.state = state;
  record.ended = clock_.now();
  record.waited_since.reset();
}

void FlightRecorder::waits(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  SP_CHECK_LT(id, next_id_);
  pulse();
  FlightRecord& record = ring_[id % capacity_];
  if (record.id != id) return;
  record.waited_since = clock_.now();
  record.lane = lane();
  waiting_.push_back(id);
}

void FlightRecorder::enter(ProgramPlace at) {
  std::lock_guard lock(mutex_);
  at_ = std::move(at);
  lane();
  pulse();
}

void FlightRecorder::know(const Group& group) {
  std::lock_guard lock(mutex_);
  members_[group.name] = group.world_ranks;
}

// The first thread that comes is lane 0.
int FlightRecorder::lane() {
  return lanes_.try_emplace(std::this_thread::get_id(), static_cast<int>(lanes_.size()))
      .first->second;
}

void FlightRecorder::pulse() {
  ++pulses_;
  last_pulse_ = clock_.now();
}

std::optional<Duration> FlightRecorder::longest_wait() const {
  std::lock_guard lock(mutex_);
  std::optional<Duration> longest;
  for (const std::uint64_t id : waiting_) {
    const FlightRecord& record = ring_[id % capacity_];
    if (record.id != id || !record.waited_since) continue;
    const Duration waited = clock_.now() - *record.waited_since;
    if (!longest || waited > *longest) longest = waited;
  }
  return longest;
}

OperationRecord FlightRecorder::operation(const FlightRecord& record, Duration now) const {
  OperationRecord operation;
  operation.group = record.group;
  if (const auto known = members_.find(record.group); known != members_.end()) {
    operation.members = known->second;
  }
  const auto world_rank = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    return rank >= 0 && index < operation.members.size() ? operation.members[index] : rank;
  };
  operation.sequence = record.sequence;
  operation.op = std::string(shardproof::name(record.kind));
  if (reduces(record.kind)) operation.reduce = std::string(shardproof::name(record.op));
  if (record.kind != CallKind::barrier) {
    operation.dtype = std::string(shardproof::name(record.dtype));
    operation.send_counts = {record.send_count};
    operation.recv_counts = {record.recv_count};
    if (record.kind == CallKind::broadcast) operation.send_counts = {};  // of the root alone
    if (record.kind == CallKind::recv) operation.send_counts = {};
    if (record.kind == CallKind::send) operation.recv_counts = {};
    auto& whole =
        record.kind == CallKind::all_gather ? operation.recv_counts : operation.send_counts;
    if (!record.shares.empty()) whole.assign(record.shares.begin(), record.shares.end());
  }
  (is_message(record.kind) ? operation.peer : operation.root) = world_rank(record.peer);
  operation.tag = record.tag;
  operation.asynchronous = record.asynchronous;
  operation.state = record.state == State::started     ? OperationRecord::State::started
                    : record.state == State::completed ? OperationRecord::State::completed
                                                       : OperationRecord::State::failed;
  operation.waited = record.waited_since.has_value();
  if (record.waited_since) operation.waited_for = seconds(now - *record.waited_since);
  operation.lane = record.lane;
  operation.started_ago = seconds(now - record.started);
  if (record.state != State::started) operation.ended_ago = seconds(now - record.ended);
  operation.at = record.at;
  return operation;
}

RankRecords FlightRecorder::records(std::size_t operations) const {
  std::lock_guard lock(mutex_);
  const Duration now = clock_.now();
  RankRecords records;
  records.rank = world_rank_;
  records.pulses = pulses_;
  records.pulse_ago = seconds(now - last_pulse_);
  records.at = at_;
  records.lanes = lane_of_group_;
  for (const auto& [numbering, count] : next_sequence_) {
    FlightRecord like;
    like.group = std::get<0>(numbering);
    like.kind = std::get<1>(numbering);
    like.peer = is_message(like.kind) ? std::get<2>(numbering) : -1;
    like.tag = std::get<3>(numbering);
    records.issued[numbering_of(operation(like, now), world_rank_)] = count;
  }
  const std::uint64_t held = ring_.size();
  for (std::uint64_t id = next_id_ - held; id < next_id_; ++id) {
    const FlightRecord& record = ring_[id % capacity_];
    if (next_id_ - id > operations && !record.waited_since) continue;
    records.operations.push_back(operation(record, now));
  }
  return records;
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

FlightRecorder::Counts FlightRecorder::take_counts() {
  std::lock_guard lock(mutex_);
  return std::exchange(counts_, {});
}

RecordedCommunicator::RecordedCommunicator(std::unique_ptr<Communicator> inner,
                                           std::shared_ptr<FlightRecorder> recorder)
    : ForwardingCommunicator(std::move(inner)), recorder_(std::move(recorder)) {
  SP_CHECK(recorder_ != nullptr, "a recorded communicator needs a recorder");
  recorder_->know(group());
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
