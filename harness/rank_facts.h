// rank_facts: what every rank must have been asked, and must be, before the first step: ranks that
// were started by hand with different values would call different collectives, and wait for each
// other until their deadlines. Two lists, causes first: what was asked decides what the data are.
// Thread rule: pure.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "harness/world.h"
#include "parallel/agreement.h"

namespace shardproof {

// Every key of the config (but the path of the data: machines may differ; its digest may not), the
// checkpoint to resume and how, and whether metrics, a trace and a fault are on.
std::vector<Fact> request_facts(const RunRequest& request);

// The program, its kernels, the data, the number of ranks.
std::vector<Fact> program_facts(const Dataset& dataset, int world);

bool wants_metrics(const RunRequest& request);
TraceOptions traced_with_fault(const RunRequest& request);  // the config's fault goes first

}  // namespace shardproof
