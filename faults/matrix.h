// matrix: what must at least be shown to end well, row by row, and the scenario that shows it
// (faults/scenarios), on thread ranks and on MPI processes. A row of what is not built yet stands
// here without a scenario, so that nobody takes its absence for a proof. Thread rule: values.
#pragma once

#include <span>
#include <string_view>

namespace shardproof {

struct MatrixRow {
  std::string_view what;
  std::string_view scenario;  // "dtype_mismatch"; empty: not built yet
};
std::span<const MatrixRow> fault_matrix();

}  // namespace shardproof
