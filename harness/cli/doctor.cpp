// doctor: the verb that measures this machine.
#include "harness/doctor.h"

#include <fmt/format.h>

#include <memory>

#include "harness/cli/cli.h"

namespace shardproof {
namespace {

struct Arguments {
  std::string directory = ".";
  bool json = false;
  std::string kernel_digest;  // portable | fast: print it and end
};

int doctor(const Arguments& arguments) {
  if (!arguments.kernel_digest.empty()) {
    fmt::print("{}\n", kernel_digest(arguments.kernel_digest == "portable"));
    return 0;
  }
  const std::vector<Finding> findings = diagnose(arguments.directory);
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
  verb->add_flag("--json", arguments->json, "Print the findings as JSON");
  verb->add_option("--kernel-digest", arguments->kernel_digest)
      ->check(CLI::IsMember({"portable", "fast"}))
      ->group("");  // hidden: what its children are asked
  verb->footer(
      "Examples:\n"
      "  shardproof doctor\n"
      "  shardproof doctor --dir /mnt/checkpoints --json\n"
      "Exit codes: 0 every premise holds here, 3 one does not.");
  verb->callback([arguments, &status] { status = doctor(*arguments); });
}

}  // namespace shardproof
