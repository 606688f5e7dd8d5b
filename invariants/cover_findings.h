// cover_findings: what cover looks for in the tensors of one step: holes, unequal copies. Internal
// to the checks named cover. Thread rule: pure functions of their arguments.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "invariants/tensor_grid.h"
#include "invariants/verdict.h"

namespace shardproof {

struct Finding {
  std::string reason;
  std::optional<Difference> difference;
  bool undecided = false;
};

struct HeldPlace {
  int rank = 0;
  TensorPlace place;
};
using PlaceMap = std::map<std::string, std::vector<HeldPlace>>;

// Where ranks hold each tensor, as events say or, without any, as captured files do.
PlaceMap places_at(const Trace& trace, std::int64_t step, const std::string& what);

// The first hole, or copy that differs, in what was traced at (step, what).
std::optional<Finding> find_problem(const Trace& trace, std::int64_t step, const std::string& what);
// A box of a tensor has one number, on all ranks and at all steps: it is part of every address.
std::optional<Finding> find_renumbered(const Trace& trace);
// A parameter that `names`, those of the first traced step, does not have: where was it, and what
// are its values from?
std::optional<Finding> find_new(const Trace& trace, std::int64_t step,
                                const std::set<std::string>& names);

}  // namespace shardproof
