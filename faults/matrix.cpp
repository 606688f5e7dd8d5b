// matrix: the rows.
#include "faults/matrix.h"

#include <array>

namespace shardproof {
namespace {

constexpr std::array rows{
    MatrixRow{"a rank exits before a collective", "exit_before_collective"},
    MatrixRow{"a rank exits after a collective", "exit_after_collective"},
    MatrixRow{"a call with another count", "count_mismatch"},
    MatrixRow{"a call with another dtype", "dtype_mismatch"},
    MatrixRow{"calls in another order", "order_mismatch"},
    MatrixRow{"dropout keyed by another step", "random_key"},
    MatrixRow{"other random state around a recomputed activation", ""},
    MatrixRow{"an expert without tokens, and one with too many", ""},
    MatrixRow{"a rank dies before its shard is complete", "death_in_shard"},
    MatrixRow{"a crash before the commit of a manifest", "crash_before_commit"},
    MatrixRow{"a crash after the commit of a manifest", "crash_after_commit"},
    MatrixRow{"a checkpoint restored on another world", "restore_on_another_world"},
    MatrixRow{"another data cursor", "cursor_mismatch"},
    MatrixRow{"another mixture of sources", "mixture_mismatch"},
    MatrixRow{"another tokenizer", "tokenizer_mismatch"},
    MatrixRow{"a byte of a shard flips", "corrupt_shard"},
    MatrixRow{"the disk fails in a save", "io_error_in_save"},
    MatrixRow{"a death while another death is recovered from", "death_during_recovery"},
    MatrixRow{"a death in an elastic run", "elastic_death"},
    MatrixRow{"the time of day jumps", "clock_jump"},
};

}  // namespace

std::span<const MatrixRow> fault_matrix() {
  return rows;
}

}  // namespace shardproof
