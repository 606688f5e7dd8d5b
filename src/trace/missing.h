// missing: what a step event says that it does not know: "missing": ["grad_norm", "samples"], as
// that of a program of which only logged scalars are had. Such keys may be absent; a missing float
// reads as NaN, and is compared with nothing. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "trace/event.h"

namespace shardproof {

bool is_missing(const StepRecord& record, const char* key);
std::vector<std::string> missing_keys(const StepRecord& record);

}  // namespace shardproof
