// prune: the verb `checkpoint prune`: by hand what a run does with checkpoint.keep_last, and the
// shards of saves that never ended.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "checkpoint/orphans.h"
#include "checkpoint/retention.h"
#include "harness/cli/cli.h"
#include "harness/cli/option_values.h"

namespace shardproof {
namespace {

struct Prune {
  std::string directory;
  int keep_last = 0;
  int keep_every = 0;
  bool orphans = false;
  double older_than = 24;  // hours
};

// The folder and everything in it were last changed so many hours ago.
bool unchanged_for(const std::filesystem::path& folder, double hours) {
  auto newest = std::filesystem::last_write_time(folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    newest = std::max(newest, entry.last_write_time());
  }
  const auto age = std::filesystem::file_time_type::clock::now() - newest;
  return std::chrono::duration<double, std::ratio<3600>>(age).count() >= hours;
}

int prune(const Prune& asked) {
  if (asked.keep_last == 0 && !asked.orphans) {
    throw Error(ErrorKind::bad_input, "checkpoint prune",
                "nothing to do; expected --keep-last N, --orphans or both");
  }
  const auto storage = posix_storage(asked.directory, false);
  if (asked.keep_last > 0) {
    const PruneReport report = shardproof::prune(*storage, {asked.keep_last, asked.keep_every});
    for (const std::string& id : report.removed) fmt::print("{}: removed\n", id);
    if (!report.kept_because.empty()) {
      throw Error(ErrorKind::corrupt, asked.directory, "nothing removed: " + report.kept_because);
    }
  }
  if (!asked.orphans) return 0;
  const std::filesystem::path root(asked.directory);
  const OrphanReport report = remove_orphans(*storage, [&](const std::string& folder) {
    return unchanged_for(root / folder, asked.older_than);
  });
  for (const std::string& name : report.removed) fmt::print("{}: removed\n", name);
  for (const std::string& name : report.kept) {
    fmt::print("{}: kept: it changed within {} hours, a save may be under way\n", name,
               asked.older_than);
  }
  return 0;
}

}  // namespace

void add_prune(CLI::App& checkpoint, int& status) {
  const auto asked = std::make_shared<Prune>();
  CLI::App* verb = checkpoint.add_subcommand(
      "prune", "Remove old checkpoints, or what saves left that never ended");
  verb->add_option("DIR", asked->directory, "directory of checkpoints")->required();
  verb->add_option("--keep-last", asked->keep_last, "The newest so many stay")
      ->check(integer_range(1));
  verb->add_option("--keep-every", asked->keep_every,
                   "With --keep-last: those at a multiple of so many steps stay too")
      ->check(integer_range(1));
  verb->add_flag("--orphans", asked->orphans, "Remove shards that no checkpoint names");
  verb->add_option(
      "--older-than", asked->older_than,
      "Hours in which such shards have not changed (24); a save that still writes them "
      "would fail");
  verb->footer(
      "Examples:\n"
      "  shardproof checkpoint prune DIR --keep-last 2\n"
      "  shardproof checkpoint prune DIR --orphans --older-than 1\n"
      "While no run saves into DIR.");
  verb->callback([asked, &status] { status = prune(*asked); });
}

}  // namespace shardproof
