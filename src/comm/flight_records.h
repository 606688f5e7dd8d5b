// flight_records: what the ranks of a job say of their operations and of themselves at one look:
// the input of hang_analysis, whoever gathered it (the watch of a running job, dumps of ours or of
// other tools, a preload in somebody's MPI program). Plain data; words are texts, so that records
// of programs that know other operations and types fit as well.
// Times are seconds before the look, by the rank's own clock: clocks of ranks are never compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace shardproof {

// Where a rank's program is: comparable on one rank and between ranks of one program.
struct ProgramPlace {
  std::int64_t step = -1;  // -1: not said
  int phase = -1;          // in the order of a step
  std::string name;        // "backward"
  bool known() const { return step >= 0; }
  // In the order of the program; false when one of both is not known.
  bool is_after(const ProgramPlace& other) const;
  std::string text() const;  // "step 3, backward"; "" when not known
};

struct OperationRecord {
  enum class State : std::uint8_t { started, completed, failed };

  std::string group;         // name, the same on all its ranks
  std::vector<int> members;  // world ranks by group rank; empty: not known
  // Of collectives: in the group, from 0 or 1, the same number on all its ranks. Of messages: per
  // sender, receiver and tag, the same number at both ends. Of splits: among the group's splits.
  std::uint64_t sequence = 0;
  std::string op;                          // "all_reduce", "send", "recv", "barrier", "split"
  std::string reduce;                      // "sum"; empty: none
  std::string dtype;                       // "f32"; empty: not known, or without data
  std::vector<std::uint64_t> send_counts;  // elements: one number, or one a rank
  std::vector<std::uint64_t> recv_counts;
  int root = -1;  // world rank
  int peer = -1;  // world rank of a message's other end
  int tag = 0;
  bool asynchronous = false;
  State state = State::started;
  bool waited = false;    // a thread of this rank stands in it, or in the wait for it
  double waited_for = 0;  // seconds
  int lane = 0;  // which of the rank's threads stands in it, or issued it; 0: the first that came
  double started_ago = 0;
  double ended_ago = 0;  // of one that is not `started`
  ProgramPlace at;       // where it was issued

  bool is_message() const { return op == "send" || op == "recv"; }
};

enum class RankLife : std::uint8_t {
  running,
  stopped,  // its process is stopped (SIGSTOP, a debugger)
  ended,    // its process or thread has ended, or it said that it is done
  silent,   // it did not answer
};

struct RankRecords {
  int rank = -1;  // world rank
  RankLife life = RankLife::running;
  std::uint64_t pulses = 0;  // counts calls, phases and actions: unchanged means nothing moved
  double pulse_ago = 0;      // since the last of them
  ProgramPlace at;
  // How many operations it has issued, by numbering (see numbering_of): more than the records show
  // where older ones were overwritten. What is missing here is counted from the records.
  std::map<std::string, std::uint64_t> issued;
  std::map<std::string, int> lanes;         // by group: the thread that issued its last operation
  std::vector<OperationRecord> operations;  // oldest first
};

struct FlightRecords {
  std::vector<RankRecords> ranks;  // any order; ranks may be missing
};

// The name of the sequence in which an operation of `rank` is numbered: the group for collectives,
// "group send 0>2 #7" for messages of tag 7 from world rank 0 to 2 (either end), "group split".
std::string numbering_of(const OperationRecord& operation, int rank);
// "world all_reduce #12", "world/pp.0 recv from rank 2 tag 7 #3".
std::string name_of(const OperationRecord& operation);
// The name and what is moved: "world all_reduce #12 (sum of 1024 f32)".
std::string describe(const OperationRecord& operation);

// As control sockets carry it. Error corrupt for anything else.
Json to_json(const RankRecords& records);
RankRecords rank_records_from_json(const Json& json, const std::string& place);

}  // namespace shardproof
