// make_plan: native sums of plain data parallelism have a plan of their own, with buckets.
#include "parallel/make_plan.h"

#include "base/check.h"
#include "parallel/legality.h"
#include "parallel/mesh_parallel.h"
#include "parallel/native_data_parallel.h"

namespace shardproof {

std::unique_ptr<Plan> make_plan(Mesh& mesh, const PlanOptions& options) {
  const Layout& layout = mesh.layout();
  const std::string text =
      problem(layout, options.shape, options.micro_batches, 0, options.stage_layers);
  SP_CHECK(text.empty(), text);
  const bool plain = layout.world() == layout.dp && layout.shard_group == 0;
  if (plain && options.native && layout.zero == 0) {
    return make_native_data_parallel(mesh, {options.shape,
                                            options.micro_batches,
                                            options.seed,
                                            options.bucket_bytes,
                                            options.overlap,
                                            options.offload,
                                            {}});
  }
  return make_mesh_parallel(mesh, options);
}

}  // namespace shardproof
