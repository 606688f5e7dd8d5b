// outcome: the table. A row says what is right, and why.
#include "faults/outcome.h"

#include <array>

#include "base/check.h"

namespace shardproof {
namespace {

constexpr bool yes = true, no = false;
using enum FaultKind;

constexpr std::array table{
    // kind, survived-equal, detected, refused, names the rank
    Allowed{exit, no, yes, no, yes, "the survivors' calls, or the launcher, say who is gone"},
    Allowed{kill, no, yes, no, yes, "the survivors' calls, or the launcher, say who is gone"},
    Allowed{stop, no, yes, no, yes, "a wait that is looked into finds who stands still"},
    Allowed{exception, no, yes, no, no, "the rank says it itself"},
    Allowed{delay, yes, no, no, no, "late is not wrong"},
    Allowed{clock_jump, yes, no, no, no, "what waits or decides asks a clock that cannot jump"},
    Allowed{dtype, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{count, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{split, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{op, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{root, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{tag, no, yes, no, yes, "a message carries its envelope, and a wait is looked into"},
    Allowed{group, no, yes, no, yes, "a wait is looked into, or the other group disagrees"},
    Allowed{order, no, yes, no, yes, "ranks agree on the call before data moves"},
    Allowed{skip, no, yes, no, no, "the next call disagrees, or a wait is looked into"},
    Allowed{extra, no, yes, no, no, "the next call disagrees, or a wait is looked into"},
    Allowed{flip_send, yes, yes, no, no,
            "equal where the bit is of no use: a sum rounds it away, or "
            "nobody reads it"},
    Allowed{flip_recv, yes, yes, no, no,
            "equal where the bit is of no use: a sum rounds it away, or "
            "nobody reads it"},
    Allowed{flip_parameter, yes, yes, no, no, "equal where it is overwritten before it is read"},
    Allowed{flip_moment, yes, yes, no, no, "equal where it is overwritten before it is read"},
    Allowed{flip_gradient, yes, yes, no, no, "equal where it is overwritten before it is read"},
    Allowed{nan, no, yes, no, no, "a loss or norm that is not finite ends the step"},
    Allowed{random_key, yes, yes, no, no,
            "equal without dropout; else a piece that is computed again differs"},
    Allowed{learning_rate, yes, yes, no, no, "equal after the step is done again or rolled back"},
    Allowed{disk_full, yes, yes, no, no, "equal where an operation only clears away"},
    Allowed{io_error, yes, yes, no, no, "equal where an operation only clears away"},
    Allowed{corrupt_shard, no, yes, yes, no, "a load verifies before it trusts"},
    Allowed{truncate_shard, no, yes, yes, no, "a load verifies before it trusts"},
    Allowed{swap_shards, no, yes, yes, no, "a load verifies before it trusts"},
    Allowed{missing_shard, no, yes, yes, no, "a load verifies before it trusts"},
    Allowed{other_parameters, no, no, yes, yes, "replicas agree on parameters before a step"},
    Allowed{other_config, no, no, yes, yes, "ranks agree on what was asked before a step"},
    Allowed{other_data, no, no, yes, yes, "ranks agree on the data before a step"},
    Allowed{other_world, no, no, yes, yes, "ranks agree on what was asked before a step"},
    Allowed{other_cursor, no, no, yes, no, "the facts of a manifest contradict each other"},
    Allowed{other_mixture, no, no, yes, no, "a resume compares the mixture"},
    Allowed{other_tokenizer, no, no, yes, no, "a resume compares the tokenizer"},
};

}  // namespace

std::string_view name(FaultOutcome outcome) {
  switch (outcome) {
    case FaultOutcome::survived_equal:
      return "survived-equal";
    case FaultOutcome::detected:
      return "detected";
    case FaultOutcome::refused:
      return "refused";
    case FaultOutcome::silent:
      return "SILENT";
    case FaultOutcome::hung:
      return "HUNG";
    default:
      return "NOT FIRED";
  }
}

std::span<const Allowed> allowed_outcomes() {
  return table;
}

bool is_allowed(FaultKind kind, FaultOutcome outcome) {
  const Allowed& row = table.at(static_cast<std::size_t>(kind));
  SP_CHECK(row.kind == kind, "the table is in the order of the enum");
  switch (outcome) {
    case FaultOutcome::survived_equal:
      return row.survived_equal;
    case FaultOutcome::detected:
      return row.detected;
    case FaultOutcome::refused:
      return row.refused;
    default:
      return false;
  }
}

}  // namespace shardproof
