// recorder: a ring of operation records with absolute times.
#include "harness/interpose/recorder.h"

#include <algorithm>

namespace shardproof::interpose {
namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Duration now() {
  return Clock::real().now();
}

}  // namespace

Recorder::Recorder(int world_rank, std::size_t capacity)
    : world_rank_(world_rank), capacity_(capacity), last_pulse_(now()) {}

void Recorder::know(const std::string& group, std::vector<int> members) {
  const std::lock_guard lock(mutex_);
  members_[group] = std::move(members);
}

void Recorder::pulse() {
  ++pulses_;
  last_pulse_ = now();
}

Recorder::Entry* Recorder::find(std::uint64_t id) {
  if (ring_.empty()) return nullptr;
  Entry& entry = ring_[id % capacity_ < ring_.size() ? id % capacity_ : 0];
  return entry.id == id ? &entry : nullptr;
}

const Recorder::Entry* Recorder::find(std::uint64_t id) const {
  return const_cast<Recorder*>(this)->find(id);
}

void Recorder::number(Entry& entry) {
  entry.operation.sequence = issued_[numbering_of(entry.operation, world_rank_)]++;
  entry.numbered = true;
}

std::uint64_t Recorder::begin(OperationRecord operation, bool issued) {
  const std::lock_guard lock(mutex_);
  threads_.insert(std::this_thread::get_id());
  Entry entry{next_id_++, std::move(operation), false, now(), {}, {}};
  OperationRecord& record = entry.operation;
  if (!record.is_message()) record.members = members_[record.group];
  const bool wild = record.is_message() && (record.peer < 0 || record.tag < 0);
  if (issued && !wild) {
    number(entry);
  } else if (!wild) {
    record.sequence = issued_[numbering_of(record, world_rank_)];
  }
  pulse();
  const std::uint64_t id = entry.id;
  if (ring_.size() < capacity_) {
    ring_.push_back(std::move(entry));
  } else {
    ring_[id % capacity_] = std::move(entry);
  }
  return id;
}

void Recorder::matched(std::uint64_t id, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  pulse();
  Entry* const entry = find(id);
  if (entry == nullptr || entry->numbered) return;
  entry->operation.peer = peer;
  entry->operation.tag = tag;
  number(*entry);
}

void Recorder::stand(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  pulse();
  Entry* const entry = find(id);
  if (entry == nullptr) return;
  entry->operation.waited = true;
  entry->stood = now();
}

void Recorder::leave(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = find(id);
  if (entry == nullptr || !entry->operation.waited) return;  // a test in a loop is no progress
  entry->operation.waited = false;
  pulse();
}

void Recorder::end(std::uint64_t id, bool well) {
  const std::lock_guard lock(mutex_);
  pulse();
  Entry* const entry = find(id);
  if (entry == nullptr || entry->operation.state != OperationRecord::State::started) return;
  entry->operation.state =
      well ? OperationRecord::State::completed : OperationRecord::State::failed;
  entry->operation.waited = false;
  entry->ended = now();
}

void Recorder::withdraw(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  pulse();
  Entry* const gone = find(id);
  if (gone == nullptr) return;
  gone->operation.state = OperationRecord::State::failed;
  gone->ended = now();
  if (!gone->numbered) return;
  const std::string numbering = numbering_of(gone->operation, world_rank_);
  --issued_[numbering];
  for (Entry& each : ring_) {
    if (each.id > id && each.numbered && numbering_of(each.operation, world_rank_) == numbering) {
      --each.operation.sequence;
    }
  }
}

void Recorder::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  pulse();
  for (Entry& each : ring_) {  // what it has sent, MPI delivers
    if (each.operation.op != "send" || each.operation.state != OperationRecord::State::started) {
      continue;
    }
    each.operation.state = OperationRecord::State::completed;
    each.ended = now();
  }
}

RankRecords Recorder::records(std::size_t operations) const {
  const std::lock_guard lock(mutex_);
  const Duration at = now();
  RankRecords records;
  records.rank = world_rank_;
  records.life = finished_ ? RankLife::ended : RankLife::running;
  records.pulses = pulses_;
  records.pulse_ago = seconds(at - last_pulse_);
  records.issued = issued_;
  const std::uint64_t held = ring_.size();
  for (std::uint64_t id = next_id_ - held; id < next_id_; ++id) {
    const Entry& entry = *find(id);
    if (next_id_ - id > operations && !entry.operation.waited) continue;
    OperationRecord record = entry.operation;
    record.started_ago = seconds(at - entry.started);
    if (record.state != OperationRecord::State::started) {
      record.ended_ago = seconds(at - entry.ended);
    }
    record.waited = record.waited && threads_.size() == 1;
    if (record.waited) record.waited_for = seconds(at - entry.stood);
    records.operations.push_back(std::move(record));
  }
  return records;
}

std::string Recorder::place_of(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = find(id);
  return entry == nullptr ? "an operation" : name_of(entry->operation);
}

bool Recorder::is_send(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const Entry* const entry = find(id);
  return entry != nullptr && entry->operation.op == "send";
}

}  // namespace shardproof::interpose
