// fault_kind: what can be made to go wrong, and at which points: the table that `shardproof faults
// list` prints. Which outcomes a kind may have is in faults/outcome.h. Thread rule: values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "faults/inject/fault_point.h"

namespace shardproof {

enum class FaultKind : std::uint8_t {
  exit,
  kill,
  stop,
  exception,
  delay,
  clock_jump,  // of a rank
  dtype,
  count,
  split,
  op,
  root,
  tag,
  group,
  order,
  skip,
  extra,  // a wrong call
  flip_send,
  flip_recv,  // on the wire
  flip_parameter,
  flip_moment,
  flip_gradient,
  nan,
  random_key,
  learning_rate,  // in the state
  disk_full,
  io_error,  // a failing operation
  corrupt_shard,
  truncate_shard,
  swap_shards,
  missing_shard,  // stored bytes
  other_parameters,
  other_config,
  other_data,
  other_world,  // a rank starts so
  other_cursor,
  other_mixture,
  other_tokenizer  // a resume finds so
};

// jump: seconds, forward or back.
enum class ArgumentUse : std::uint8_t { none, seconds, jump, factor, bit };

struct KindInfo {
  FaultKind kind;
  std::string_view name;  // as in scripts
  bool at_call, at_file, at_step, at_start;
  bool any_moment;  // else: calls and files before, stored bytes after
  ArgumentUse argument = ArgumentUse::none;
  double usual = 0;  // the argument when none is given
  std::string_view sentence;
};

std::span<const KindInfo> fault_kinds();  // in the order of the enum
const KindInfo& info(FaultKind kind);
inline std::string_view name(FaultKind kind) {
  return info(kind).name;
}
// Error bad_input at `place`, with the nearest name.
FaultKind parse_fault_kind(std::string_view text, const std::string& place);

// Why this kind cannot happen at this point; empty: it can.
std::string misfit(FaultKind kind, const FaultPoint& point);

}  // namespace shardproof
