// outcome: what a fault may lead to, as data: the table that is reviewed by eye and printed by
// `shardproof faults list`. A run that went through its fault has one outcome; which ones are right
// for a kind depends on the kind alone (and on the point, where the table says so).
// survived-equal: the run went on and its end has the bits of the run without a fault.
// detected: the run ended by an error that names what happened; the run that recovers has the bits.
// refused: something was not begun or not loaded, by name; what was there before is whole.
// SILENT, HUNG and NOT FIRED are never allowed. Thread rule: values.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "faults/inject/fault_kind.h"

namespace shardproof {

enum class FaultOutcome : std::uint8_t {
  survived_equal,
  detected,
  refused,  // allowed, by kind
  silent,
  hung,
  not_fired  // never
};
std::string_view name(FaultOutcome outcome);  // "survived-equal", "SILENT"

struct Allowed {
  FaultKind kind;
  bool survived_equal, detected, refused;
  bool names_rank;           // when detected: the error says which rank
  std::string_view because;  // why more than one is right, or what finds it
};
std::span<const Allowed> allowed_outcomes();
bool is_allowed(FaultKind kind, FaultOutcome outcome);

}  // namespace shardproof
