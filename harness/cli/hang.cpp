// hang: the verb that reads flight dumps and says who hung, and why.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/dump_report.h"
#include "harness/cli/cli.h"
#include "harness/say.h"

namespace shardproof {

namespace {

struct Arguments {
  std::vector<std::string> paths;
  bool json = false;
};

int explain(const Arguments& arguments) {
  const DumpReport report = report_on(read_flight_dumps(arguments.paths));
  say(arguments.json ? report.to_json().dump(1) + "\n" : report.text());
  switch (report.finding) {
    case DumpReport::Finding::nothing:
      return 0;
    case DumpReport::Finding::named:
      return 1;
    default:
      return 3;
  }
}

}  // namespace

void add_hang(CLI::App& app, int& status) {
  CLI::App* verb =
      app.add_subcommand("hang", "Say from the flight dumps of a job's ranks who hung, and why");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("DUMP", arguments->paths, "Dumps of all ranks, or folders of them")->required();
  verb->add_flag("--json", arguments->json, "Print what was found as JSON");
  verb->footer(
      "Examples:\n"
      "  shardproof hang trace                      what a failed run of ours left\n"
      "  shardproof hang /tmp/nccl_trace_rank_*     PyTorch's flight recorder (2.x)\n"
      "Names the missing rank, the operation on which ranks disagree (field, ranks on each side), "
      "who\n"
      "waits for whom, the cycle, and the last completed operation of each group. Dumps are "
      "pickles or\n"
      "JSON; nothing in a pickle is executed.\n"
      "Exit codes: 0 nothing wrong found, 1 a hang or a mismatch is named, 2 bad input, 3 "
      "undecided\n"
      "(dumps of ranks are missing, or all ranks are in the same operation and agree).");
  verb->callback([arguments, &status] { status = explain(*arguments); });
}

}  // namespace shardproof
