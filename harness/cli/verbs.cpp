// verbs: the list of verbs, in the order of --help.
#include "harness/cli/cli.h"

namespace shardproof {

void add_verbs(CLI::App& app, int& status) {
  add_checkpoint(app, status);
  add_show(app, status);
}

}  // namespace shardproof
