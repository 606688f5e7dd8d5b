// peer: PyTorch on the same machine, for the benches (harness/bench/peer.py).
#pragma once

#include <string>

#include "base/json.h"
#include "train/config.h"

namespace shardproof::bench {

// `asked`, or the first interpreter with torch that is found. Error environment when there is none.
std::string find_python(const std::string& asked);

// mode: "ddp" | "fsdp". The model and the rows a rank of `config`. {"parameters", "seconds",
// "loss"}; Error environment when it fails.
Json measure_peer(const std::string& python, const std::string& mode, const Config& config,
                  int ranks);

}  // namespace shardproof::bench
