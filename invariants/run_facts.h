// run_facts: what a trace's run events say beyond the public format, read leniently: a fact that is
// missing or of another type is a fact that was not said. Torch-free. Thread rule: pure.
// Not checked here: that the ranks say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "invariants/compare.h"
#include "trace/reader.h"

namespace shardproof {

// Coordinates of a rank without its data, context and expert axes, printed: ranks with the same
// text hold the same parameters and share their optimizer state. Without coordinates all ranks do.
std::string model_coordinates(const RankTrace& rank);

// Parameters that any rank lists as frozen: they have no gradient and no moments.
std::set<std::string> frozen_names(const Trace& trace);

// Whether every rank says that it traces all tensors of all steps: what such a trace lacks was not
// there, in any other it may only not have been captured.
bool traces_all_tensors(const Trace& trace);

// The expression to whose tensors the trace is kept ("match" of the run event), or nothing: what
// sums over all tensors need is then not there.
std::optional<std::string> kept_to(const Trace& trace);
// "the trace is kept to tensors that match "X"", for a reason. Precondition: kept_to(trace).
std::string kept_text(const Trace& trace);

// Of the first rank's run event, by JSON pointer: "/config/training/steps", "/data/size".
std::optional<std::int64_t> integer_fact(const Trace& trace, const char* pointer);
std::optional<std::string> text_fact(const Trace& trace, const char* pointer);

// Whether a run event holds a resolved config: our own trainer's does. A trace without one keeps to
// the public format, and what its optimizer is, is not known.
bool says_config(const Trace& trace);

// First difference of loss, grad_norm, lr and skipped between the first rank and another.
std::optional<Difference> rank_difference(const Trace& trace);

// What the run says of its sums: native ones are the backend's own, and their bits depend on the
// layout, the backend and how the work is divided. A trace that says nothing is not native.
bool is_native(const Trace& trace);
// Whether both say the same of all that determines the bits of native sums beyond the Case.
bool same_native_sums(const Trace& expected, const Trace& found);

// The format from which the scalars of a program without an emitter were imported ("torchtitan"),
// or nothing.
std::optional<std::string> imported_from(const Trace& trace);
// "tensors: not verified (scalars imported from torchtitan)"; empty when neither is an import.
std::string imported_text(const Trace& expected, const Trace& found);
// Whether the trace tells if the run ended. An import of what logs no end does not.
bool tells_end(const RankTrace& rank);

// Why two runs cannot be compared at all: nothing traced, ranks missing or dead, values that are
// not finite, other programs, printed digits against bits. Empty when they can.
std::string comparison_obstacle(const Trace& expected, const Trace& found);

}  // namespace shardproof
