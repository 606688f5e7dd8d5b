// doctor: the verb that measures this machine.
#include "harness/doctor.h"

#include <fmt/format.h>

#include <memory>

#include "harness/cli/cli.h"
#include "harness/doctor_ranks.h"

namespace shardproof {
namespace {

struct Arguments {
  std::string directory = ".";
  bool json = false;
  int ranks = 0;
  std::string kernel_digest;  // portable | fast: print it and end
};

int doctor(const Arguments& arguments) {
  if (!arguments.kernel_digest.empty()) {
    fmt::print("{}\n", kernel_digest(arguments.kernel_digest == "portable"));
    return 0;
  }
  std::vector<Finding> findings = diagnose(arguments.directory);
  if (arguments.ranks > 0) findings.push_back(ranks_finding(arguments.ranks));
  Json json = Json::array();
  for (const Finding& finding : findings) {
    json.push_back(finding.to_json());
    if (arguments.json) continue;
    fmt::print("{}  {:<27} {}\n", finding.ok ? "ok  " : "FAIL", finding.name, finding.detail);
  }
  if (arguments.json) fmt::print("{}\n", json.dump(1));
  return exit_code(findings);
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("doctor", "Measure on this machine what the laws rest on");
  verb->add_option("--dir", arguments->directory, "Folder whose file system is tried (default: .)");
  verb->add_option("--ranks", arguments->ranks,
                   "Also so many thread ranks, each of which tries itself: a known product, known "
                   "sums")
      ->check(CLI::Range(1, 1024));
  verb->add_flag("--json", arguments->json, "Print the findings as JSON");
  verb->add_option("--kernel-digest", arguments->kernel_digest)
      ->check(CLI::IsMember({"portable", "fast"}))
      ->group("");  // hidden: what its children are asked
  verb->footer(
      "Examples:\n"
      "  shardproof doctor\n"
      "  shardproof doctor --dir /mnt/checkpoints --json\n"
      "  shardproof doctor --ranks 8\n"
      "Exit codes: 0 every premise holds here, 3 one does not.");
  verb->callback([arguments, &status] { status = doctor(*arguments); });
}

}  // namespace shardproof
