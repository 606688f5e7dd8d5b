// rank_pool: ranks as threads of one process. Runs `body(rank)` on `size` threads and returns when
// all have ended. The first failure (by time) is rethrown after the others were released by
// `on_failure` (which must make their waits end); later failures are kept as notes.
#pragma once

#include <functional>

namespace shardproof {

void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void()>& on_failure);

}  // namespace shardproof
