// checkpoint: `shardproof bench checkpoint`: saves and loads of a large state on two thread ranks,
// in turns with PyTorch's distributed checkpoint (two gloo processes, no digests; peer_dcp.py) and
// with a bare write and fsync of the same bytes by two threads, all in one folder. Ours hash every
// byte, sync, and commit; ours verify every byte that they load.
// Also: how long a background save of a 10.9 M parameter run keeps a step waiting, and the CPU that
// such saves, one after another, take while that run trains.
#pragma once

#include <string>

#include "base/json.h"

namespace shardproof::bench {

struct CheckpointBenchOptions {
  std::string python;     // of the peer; empty: searched
  std::string directory;  // where the files go; empty: the current folder
  int megabytes = 512;
  int rounds = 5;
  bool quick = false;  // 32 MB, one round
};

// {"save":{"ours","dcp","bare": MB/s, medians},"load":{..},"ratios":{..},"memory":{..},
//  "background":{..}}
Json run_checkpoint_bench(const CheckpointBenchOptions& options);
void print_checkpoint_bench(const Json& result);
int checkpoint_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench
