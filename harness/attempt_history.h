// attempt_history: the attempts of a supervised run that have failed, and what follows from them:
// whether another one is worth its time, whether a rank is taken for gone, and the Error of a run
// that is given up. The rules are said in supervisor.h. Thread rule: values; functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace shardproof {

struct Attempt {
  std::string layout;
  std::string from;        // id of a checkpoint; empty: the beginning
  std::int64_t steps = 0;  // done
  double seconds = 0;
  Error error;

  bool died() const { return error.kind() == ErrorKind::peer_died && error.world_rank() >= 0; }
  std::string text() const;
  Json to_json() const;
};

using AttemptHistory = std::vector<Attempt>;  // in order; not empty in what follows

// Why there must not be another one after the last; empty: there may.
std::string reason_to_give_up(const AttemptHistory& history, int restarts);
// Whether the rank that died last is not to be counted on.
bool rank_is_gone(const AttemptHistory& history, bool elastic);
// Whether the state that the last attempt began with was wrong: no step could be done from it.
bool began_wrong(const AttemptHistory& history);
// The last Error with all attempts; of a single attempt, that Error alone.
Error given_up(const AttemptHistory& history, const std::string& why);

}  // namespace shardproof
