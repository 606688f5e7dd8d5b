// megatron_golden: the golden values of Megatron-LM's functional tests (golden_values_*.json): per
// tag {"start_step", "end_step", "step_interval", "values"}, where values are by iteration ("1":
// 10.5; the word "nan" where nothing was logged), or, in files until 2024, a list.
// Thread rule: pure.
#pragma once

#include <string>

#include "trace/import/scalar_log.h"

namespace shardproof {

// The positions of a list count from 0, iterations from 1: `first_step` is that of the file.
// Error bad_input or corrupt naming the file, and the tag where there is one.
ScalarLog read_megatron_golden(const std::string& path, const ScalarOptions& options,
                               std::int64_t& first_step);

}  // namespace shardproof
