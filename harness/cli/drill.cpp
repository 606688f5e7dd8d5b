// drill: the hidden verb `drill`, the other process of a drill (harness/drill.h).
#include <fmt/format.h>

#include <memory>

#include "harness/cli/cli.h"
#include "harness/continued.h"
#include "harness/drill.h"
#include "harness/say.h"

namespace shardproof {

void add_drill(CLI::App& app, int& status) {
  auto what = std::make_shared<Continuation>();
  CLI::App* verb = app.add_subcommand("drill", "Verify and continue a checkpoint, for its run");
  verb->group("");  // hidden
  verb->add_option("DIR", what->directory)->required();
  verb->add_option("ID", what->id)->required();
  verb->add_option("--layout", what->layout)->required();
  verb->add_option("--steps", what->steps)->required();
  verb->callback([what, &status] {
    say(print_drill(continue_for_drill(*what)) + "\n");
    status = 0;
  });
}

}  // namespace shardproof
