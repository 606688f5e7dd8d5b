// looks: gathers the flight records of all ranks at the host of the control sockets, when a rank
// asks for a look at a wait that lasts: every rank is asked, and answers from a thread that its
// main thread cannot block. One that does not answer in time is said to be stopped, ended or
// silent, with what it last told of itself. A verdict that a rank has found goes to all ranks.
// Thread rule: one thread, the control server's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "comm/flight_records.h"
#include "harness/control_server.h"

namespace shardproof {

class Looks {
 public:
  // `is_stopped`: whether a rank's process is stopped now; null: nobody knows.
  Looks(int ranks, ControlServer& server, std::function<bool(int rank)> is_stopped);

  // An event of any kind.
  void take(const ControlEvent& event);
  // To be called often: ends a look whose time is over.
  void tick();
  bool under_way() const { return look_.has_value(); }
  const std::optional<std::string>& verdict() const { return verdict_; }  // the first, as told

 private:
  struct Look {
    std::int64_t number = 0;
    std::set<int> askers{};
    std::set<int> answered{};
    Deadline end{};
  };
  void begin(int asker);
  void take_records(const ControlEvent& event);
  void answer();

  const int ranks_;
  ControlServer& server_;
  const std::function<bool(int rank)> is_stopped_;
  std::int64_t next_look_ = 0;
  std::optional<Look> look_;
  std::map<int, RankRecords> last_;  // by rank: what it told of itself
  std::set<int> connected_;
  std::set<int> gone_;
  std::optional<std::string> verdict_;
};

}  // namespace shardproof
