// crash_sweep: the verb that kills any saver before each of its file operations and loads what it
// leaves; and that damages a finished checkpoint.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/cli/cli.h"
#include "harness/output_path.h"
#include "harness/say.h"
#include "harness/sweep/sweep_report.h"

namespace shardproof {

namespace {

struct Arguments {
  SweepCommands commands;
  double deadline = 120;
  SweepChoice choice;
  std::string save = "both";
  bool damage = false;
  DamageChoice damages;
  std::string out;
};

void write_report(const std::string& path, const Json& report) {
  std::ofstream file(path, std::ios::binary);
  file << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw Error(ErrorKind::environment, path, "cannot be written");
}

int sweep(Arguments& arguments) {
  if (!arguments.out.empty()) check_new_file(arguments.out);
  arguments.choice.first = arguments.save != "second";
  arguments.choice.second = arguments.save != "first";
  arguments.commands.deadline =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.deadline));
  SweepSubject subject(arguments.commands);
  const Baselines baselines = run_uncut(subject);
  Json report{{"saver", arguments.commands.saver}, {"load", arguments.commands.loader}};
  bool good = true;
  if (arguments.damage) {
    const DamageSweep damage =
        sweep_damage(subject, baselines.new_one, arguments.damages, [](const DamagePoint& point) {
          if (point.outcome >= Damaged::silent) say(line_of(point) + "\n");
        });
    say(summary(damage));
    report["damage"] = to_json(damage);
    good = damage.good();
  } else {
    say("  save  k  found        operation\n");
    const CrashSweep crashes =
        sweep_crashes(subject, baselines, arguments.choice,
                      [](const SweepPoint& point) { say(line_of(point) + "\n"); });
    say(summary(crashes));
    report["crashes"] = to_json(crashes);
    good = crashes.good();
  }
  if (!arguments.out.empty()) write_report(arguments.out, report);
  return good ? 0 : 1;
}

constexpr const char* examples =
    "Examples:\n"
    "  shardproof crash-sweep --root /tmp/s --load 'python3 load.py {root}' -- \\\n"
    "      python3 save.py --out {root} --state {n}\n"
    "  shardproof crash-sweep --root /tmp/s --load './load {root}' --torn -- mpirun -n 2 ./save "
    "{root} {n}\n"
    "  shardproof crash-sweep --root /tmp/s --load './load {root}' --damage -- ./save {root} {n}\n"
    "{n} becomes 1 and then 2, two saves of different states; {root} the folder. The loader's "
    "stdout must\n"
    "say which state it loaded (a digest, a step); an exit code other than 0 means that nothing "
    "could be.\n"
    "Words: OLD and NEW, the state of the save before and of the save that was cut; MIXED, another "
    "one;\n"
    "NONE, nothing can be loaded (fine before the first save has ended). All processes of the "
    "saver "
    "are\n"
    "counted together, and from operation k on none is done. Not seen: writes through mmap, "
    "io_uring,\n"
    "statically linked programs; a kill loses no unsynced data.\n"
    "Exit codes: 0 every point is OLD or NEW and no damage is SILENT, 1 else, 2 bad usage or "
    "input.";

}  // namespace

void add_crash_sweep(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand(
      "crash-sweep", "Kill any saver before each of its file operations; load what it leaves");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("--root", arguments->commands.root,
                   "Folder that it saves into: new or empty, and removed afterwards")
      ->required();
  verb->add_option("--load", arguments->commands.loader, "Command (for sh) that loads and prints")
      ->required();
  verb->add_option("--deadline", arguments->deadline, "Seconds for each run of a command (120)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--save", arguments->save, "Which save is cut: first, second or both (both)")
      ->check(CLI::IsMember({"first", "second", "both"}));
  verb->add_flag("--torn", arguments->choice.torn,
                 "Cut each write after half of its bytes as well");
  verb->add_flag("--damage", arguments->damage,
                 "Instead: flip bits of the finished checkpoint, cut its files short, take them "
                 "away");
  verb->add_option("--flips", arguments->damages.flips, "Bits to flip in each file (32)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--out", arguments->out, "Write a report as JSON (a new file)");
  verb->add_option("CMD", arguments->commands.saver, "The saver, after --")->required();
  verb->footer(examples);
  verb->callback([arguments, &status] { status = sweep(*arguments); });
}

}  // namespace shardproof
