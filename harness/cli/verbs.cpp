// verbs: the list of verbs, in the order of --help.
#include "harness/cli/cli.h"

namespace shardproof {

void add_verbs(CLI::App& app, int& status) {
  add_accept(app, status);
  add_train(app, status);
  add_resume(app, status);
  add_checkpoint(app, status);
  add_replay(app, status);
  add_trace(app, status);
  add_show(app, status);
  add_bench(app, status);
  add_doctor(app, status);
  add_rank(app, status);
}

}  // namespace shardproof
