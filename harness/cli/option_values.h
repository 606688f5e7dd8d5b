// option_values: the legal values of an option, checked before CLI11 converts its text.
// Thread rule: values.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>

namespace shardproof {

// CLI11's own ranges print as floating-point numbers, and what does not fit into an int only as a
// failed conversion.
CLI::Validator integer_range(int lo, int hi = std::numeric_limits<int>::max());
// A variable that a shell script forgot to set is no wish for the default.
CLI::Validator not_empty();

}  // namespace shardproof
