// wrong_call_row: one row of the table of wrong calls: a short program of collectives and messages
// that all ranks make, of which one rank makes a call wrongly; and what it comes to on a rank.
// Thread rule: the rank's thread.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "comm/communicator.h"

namespace shardproof {

// Rank 1 is the one that is wrong.
constexpr int wrong_rank = 1, wrong_call_ranks = 4;

struct WrongCallRow {
  enum class Calls : std::uint8_t { all_reduce, all_gather, broadcast, message };
  std::string name;  // of the mistake: "dtype", "order", ...
  Calls calls;       // the first call; a broadcast or a barrier follows
  std::string what;  // "rank 1 names i32, the others f32"
};
const std::vector<WrongCallRow>& wrong_call_rows();

enum class WrongCallEnd : std::uint8_t {
  right,  // the numbers of the right program
  wrong,  // other numbers, and no error
  error,  // an error that does not say what ranks disagree on
  hang,   // a wait that only a deadline of ours has ended, this rank's or another's
  named,  // an error that says which ranks disagree on what, or who is missing from what
  crash   // the process ended
};
std::string_view name(WrongCallEnd end);
WrongCallEnd wrong_call_end(std::string_view name, const std::string& place);

struct WrongCallOutcome {
  WrongCallEnd end = WrongCallEnd::crash;
  bool written = false;  // a call that failed has changed its buffer
  std::string error;
};
Json to_json(const WrongCallOutcome& outcome);
WrongCallOutcome outcome_from_json(const Json& json, const std::string& place);

// Collective. `other`: a second group of the same ranks, for the call that goes to a wrong group.
WrongCallOutcome run_wrong_call(const WrongCallRow& row, std::size_t elements, Communicator& comm,
                                Communicator& other, Duration deadline);

}  // namespace shardproof
