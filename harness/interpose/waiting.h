// waiting: every wait of the program is a loop of tests. One that lasts is looked into: the records
// of all ranks of this machine are gathered from the board, and what they say is analysed (see
// comm/hang_analysis.h). A verdict that is certain in two looks ends the job with exit code 87; a
// rank that is merely slow is told once and waited for.
// Thread rule: any thread that may call MPI, without the session's mutex.
#pragma once

#include <functional>

#include "harness/interpose/session.h"

namespace shardproof::interpose {

// Everything of the program that is under way moves on.
void progress(Session& all);
void wait_until(Session& all, const std::function<bool()>& done);
// Meanwhile this thread stands in an operation of the recorder.
void stand_until(Session& all, std::uint64_t record, const std::function<bool()>& done);

}  // namespace shardproof::interpose
