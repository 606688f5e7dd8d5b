// integer_range: the legal values of an integer option. CLI11's own ranges print as floating-point
// numbers, and what does not fit into an int only as a failed conversion. Thread rule: values.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>

namespace shardproof {

CLI::Validator integer_range(int lo, int hi = std::numeric_limits<int>::max());

}  // namespace shardproof
