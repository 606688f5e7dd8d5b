// rank_pool: ranks as threads of one process. Runs `body(rank)` on `size` threads and returns when
// all have ended. The first failure (by time) is rethrown after the others were released by
// `on_failure` (called once; it must make their waits end); other failures are kept as notes. That
// a group was revoked is never a cause: a rank that finds it so may end before the one whose
// timeout revoked it, and stands behind any other failure. A
// thread that the system refuses is such a failure, Error environment.
// Thread rule: `on_failure` runs on the failed rank's thread while the others are still at work.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace shardproof {

// `notes`: what later failures said, "rank 2: ...", in order of time but for that.
void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void()>& on_failure, std::vector<std::string>* notes = nullptr);

}  // namespace shardproof
