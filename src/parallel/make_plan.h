// make_plan: the plan of a layout: the one place that chooses. A new plan is a Plan of its own, a
// line here and its rules in legality.cpp. Thread rule: the rank's thread; collective.
#pragma once

#include <memory>

#include "mesh/mesh.h"
#include "parallel/plan.h"
#include "parallel/plan_options.h"

namespace shardproof {

// Precondition: problem(layout, shape, micro_batches) is empty (SP_CHECK).
std::unique_ptr<Plan> make_plan(Mesh& mesh, const PlanOptions& options);

}  // namespace shardproof
