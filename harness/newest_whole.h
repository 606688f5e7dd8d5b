// newest_whole: the checkpoint from which a run that has failed goes on: the newest one that passes
// every check (every byte, and its facts against each other). Thread rule: as checkpoint/load.h.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "checkpoint/load.h"
#include "checkpoint/storage.h"

namespace shardproof {

// The id; empty: none. Looks only at those of at most `steps` steps. `damaged`, which may be null,
// hears of each newer one that is not whole, with the first thing that is wrong.
std::string newest_whole(Storage& storage,
                         const std::function<void(const std::string& id, const Damage&)>& damaged,
                         std::int64_t steps = std::numeric_limits<std::int64_t>::max());

// "checkpoint step-00000004 is damaged: FILE, bytes [0, 4096): expected ..., found ..."
std::string text(const std::string& id, const Damage& damage);

}  // namespace shardproof
