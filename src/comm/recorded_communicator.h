// recorded_communicator: the flight recorder. Each rank keeps its last `capacity` operations over
// all its groups in one ring: sequence number, group, kind, op, dtype, counts, state, times. On a
// failure the ring is dumped (flight_dump.h); the call is also counted for the trace's `comm`
// events. When a wait is looked into, records() says the same with what hang analysis needs beside
// it: in which operations threads of the rank stand, where its program is, and whether it moves
// (pulses). Thread rule: FlightRecorder is safe from any thread (asynchronous work completes
// elsewhere).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/flight_records.h"
#include "comm/forwarding_communicator.h"

namespace shardproof {

struct FlightRecord {
  enum class State : std::uint8_t { started, completed, failed };
  std::uint64_t id = 0;        // over all groups of the rank, from 0
  std::uint64_t sequence = 0;  // within the group
  std::string group;
  CallKind kind = CallKind::barrier;
  ReduceOp op = ReduceOp::sum;
  Dtype dtype = Dtype::f32;
  std::size_t send_count = 0;
  std::size_t recv_count = 0;  // of all_to_all with what stays in place
  std::vector<std::size_t> shares;  // of reduce_scatter and all_gather, where they differ
  int peer = -1;
  int tag = 0;
  bool asynchronous = false;
  State state = State::started;
  Duration started{};
  Duration ended{};
  ProgramPlace at{};                       // where it was issued
  int lane = 0;                            // which of the rank's threads issued it, or stands in it
  std::optional<Duration> waited_since{};  // of an operation in which a thread stands
};

class FlightRecorder {
 public:
  explicit FlightRecorder(int world_rank, std::size_t capacity = 1024,
                          Clock& clock = Clock::real());

  std::uint64_t begin(FlightRecord record);  // fills id, sequence and started; returns id
  void end(std::uint64_t id, FlightRecord::State state);
  void waits(std::uint64_t id);   // this thread stands in the wait for it, until its end
  void enter(ProgramPlace at);    // what is issued from now on is issued there
  void know(const Group& group);  // who its members are
  // How long the longest wait has lasted; nothing: no thread stands in an operation.
  std::optional<Duration> longest_wait() const;
  // For hang analysis: the last operations, and those older ones in which a thread stands.
  RankRecords records(std::size_t operations = 32) const;
  std::vector<FlightRecord> last() const;  // oldest first

  // Calls since the last call of take_counts, by (group, kind, dtype): how many, elements sent.
  struct Count {
    std::uint64_t calls = 0;
    std::uint64_t elements = 0;
  };
  using Counts = std::map<std::tuple<std::string, CallKind, Dtype>, Count>;
  Counts take_counts();

 private:
  const int world_rank_;
  const std::size_t capacity_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::vector<FlightRecord> ring_;
  std::uint64_t next_id_ = 0;
  // Collectives of a group share one numbering (as barriers); messages have one a direction, peer
  // and tag.
  std::map<std::tuple<std::string, CallKind, int, int>, std::uint64_t> next_sequence_;
  Counts counts_;
  std::map<std::string, std::vector<int>> members_;  // world ranks by group rank
  std::map<std::thread::id, int> lanes_;
  std::map<std::string, int> lane_of_group_;
  std::vector<std::uint64_t> waiting_;  // ids
  ProgramPlace at_;
  std::uint64_t pulses_ = 0;
  Duration last_pulse_;

  int lane();
  void pulse();
  OperationRecord operation(const FlightRecord& record, Duration now) const;
};

class RecordedCommunicator : public ForwardingCommunicator {
 public:
  RecordedCommunicator(std::unique_ptr<Communicator> inner,
                       std::shared_ptr<FlightRecorder> recorder);
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  std::shared_ptr<FlightRecorder> recorder_;
};

}  // namespace shardproof
