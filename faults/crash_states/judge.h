// judge: what a reader finds on a disk after a crash: lists the checkpoints, verifies every byte of
// each, loads all of it, compares state digest, step and bytes with the states that may be there.
// Verdicts: old or new (the newest checkpoint is one that was there before the scenario, or one of
// it), none_yet (there is none, none was promised), and broken: a promised one is gone, one is
// listed that does not verify or load, or holds what was never saved under its id.
// Thread rule: one thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "checkpoint/small_state_testing.h"
#include "checkpoint/storage.h"

namespace shardproof::crash {

enum class Verdict { old_one, new_one, none_yet, broken };

struct Finding {
  Verdict verdict = Verdict::none_yet;
  std::string why;  // broken: what is wrong
};

class Judge {
 public:
  // Which states (seeds) an id may hold, and which ids were there before.
  Judge(const std::map<std::string, std::set<std::uint64_t>>& expected,
        std::set<std::string> given);

  Finding judge(Storage& storage, const std::set<std::string>& promised);

 private:
  struct Known {
    testing::State state;
    Digest digest;
  };
  void check(Storage& storage, const std::string& id);  // Error corrupt: what is wrong

  std::map<std::string, std::vector<Known>> known_;
  std::set<std::string> given_;
  testing::State loaded_;
};

}  // namespace shardproof::crash
