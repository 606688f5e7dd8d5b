// make_plan: pure data parallelism has a plan of its own, without the per-axis exchanges.
#include "parallel/make_plan.h"

#include "base/check.h"
#include "parallel/legality.h"
#include "parallel/mesh_parallel.h"

namespace shardproof {

std::unique_ptr<Plan> make_plan(Mesh& mesh, const DataParallelOptions& options) {
  const Layout& layout = mesh.layout();
  const std::string text = problem(layout, options.shape, options.micro_batches);
  SP_CHECK(text.empty(), text);
  if (layout.tp == 1 && layout.cp == 1) return make_data_parallel(mesh, options);
  return make_mesh_parallel(mesh, options);
}

}  // namespace shardproof
