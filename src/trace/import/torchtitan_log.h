// torchtitan_log: the lines in which torchtitan prints its steps: `step:  1  loss:  8.1309
// grad_norm:  1.23  memory: ...`, in any colours and behind any prefix (`[rank0]:[titan]
// 2025-...`). Thread rule: pure.
#pragma once

#include <string>

#include "trace/import/scalar_log.h"

namespace shardproof {

// Several ranks' lines may be mixed: they must print the same numbers, except for a loss of -1,
// which stages of a pipeline print that have none. Lines of validation are skipped, and so is a
// last line without its end. Error corrupt naming file and line where a number is none.
ScalarLog read_torchtitan_log(const std::string& path, const ScalarOptions& options);

}  // namespace shardproof
