// world: thread ranks.
#include "harness/world.h"

#include "comm/thread_communicator.h"
#include "harness/prepare.h"
#include "harness/rank_pool.h"
#include "harness/rank_run.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

// A signal ends the whole process, so it cannot end one thread rank.
void check_fault(const RunRequest& request) {
  std::optional<TraceFault> fault = request.trace.fault;
  if (!request.config.run.fault.empty()) fault = parse_trace_fault(request.config.run.fault);
  if (fault && fault->kind != TraceFault::Kind::delay) {
    throw Error(ErrorKind::bad_input, "run.fault",
                "a thread rank cannot be killed or stopped alone; expected run.backend=mpi");
  }
}

}  // namespace

void run_on_threads(const RunRequest& request) {
  check_world_size(request.config);
  check_fault(request);
  const auto dataset = prepare(request);
  ThreadWorld world(parse_layout(request.config.run.layout).world(), wait_limit(request.config));
  const auto body = [&](int rank) {
    Hooks none;
    const auto hooks = request.hooks ? request.hooks(rank) : nullptr;
    run_rank(request, dataset, world.communicator(rank), hooks ? *hooks : none);
  };
  run_ranks(world.size(), body, [&] { world.revoke_all(); });
}

bool run(const RunRequest& request) {
  if (request.config.run.backend == "mpi") return run_on_mpi(request);
  run_on_threads(request);
  return request.stop == nullptr || !request.stop->load();
}

}  // namespace shardproof
