// faults: the verbs that list, find, inject and judge faults.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "faults/matrix.h"
#include "harness/campaign.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/option_values.h"
#include "harness/cli/stop_signal.h"
#include "harness/rank_faults.h"
#include "harness/say.h"

namespace shardproof {
namespace {

struct Flags {
  std::string run;
  std::vector<std::string> kinds;
  double budget = 0;
  std::string part = "1/1";
  int seed = 1;
  bool json = false;
  bool verbose = false;
  bool markdown = false;
  bool no_audit = false;
};

std::string points_of(const KindInfo& of) {
  std::string out;
  const auto add = [&](bool there, const char* word) {
    if (there) out += fmt::format("{}{}", out.empty() ? "" : ",", word);
  };
  add(of.at_call, "call");
  add(of.at_file, "file");
  add(of.at_step, "step");
  add(of.at_start, "start");
  return out;
}

std::string outcomes_of(const Allowed& of) {
  std::string out;
  const auto add = [&](bool there, FaultOutcome outcome) {
    if (there) out += fmt::format("{}{}", out.empty() ? "" : " or ", name(outcome));
  };
  add(of.survived_equal, FaultOutcome::survived_equal);
  add(of.detected, FaultOutcome::detected);
  add(of.refused, FaultOutcome::refused);
  return out;
}

// The page docs/faults.md.
std::string markdown() {
  std::string out =
      "# Faults\n\nWritten by `shardproof faults list --markdown`. SILENT, HUNG and a fault that "
      "did "
      "not fire are never allowed. What wrong calls come to without the guards: "
      "[wrong_calls.md](wrong_calls.md).\n\n"
      "| fault | points | what happens | allowed outcomes | because |\n|---|---|---|---|---|\n";
  for (const KindInfo& of : fault_kinds()) {
    const Allowed& row = allowed_outcomes()[static_cast<std::size_t>(of.kind)];
    out += fmt::format("| {} | {} | {} | {}{} | {} |\n", of.name, points_of(of), of.sentence,
                       outcomes_of(row), row.names_rank ? ", naming the rank" : "", row.because);
  }
  out +=
      "\n## What must at least be shown\n\nEach on thread ranks and on MPI processes "
      "(`faults/scenarios`).\n\n| what | scenario |\n|---|---|\n";
  for (const MatrixRow& row : fault_matrix()) {
    out += row.scenario.empty() ? fmt::format("| {} | not built yet |\n", row.what)
                                : fmt::format("| {} | {}.toml |\n", row.what, row.scenario);
  }
  return out;
}

int list_faults(bool as_markdown) {
  if (as_markdown) {
    say(markdown());
    return 0;
  }
  std::string out = fmt::format("{:<17}{:<16}{:<28}{}\n", "fault", "points", "allowed", "what");
  for (const KindInfo& of : fault_kinds()) {
    const Allowed& row = allowed_outcomes()[static_cast<std::size_t>(of.kind)];
    out += fmt::format("{:<17}{:<16}{:<28}{}; {}\n", of.name, points_of(of), outcomes_of(row),
                       of.sentence, row.because);
  }
  say(out);
  return 0;
}

// "2/4"
std::pair<int, int> parse_part(const std::string& text) {
  int part = 0, parts = 0, end = 0;
  const bool read = std::sscanf(text.c_str(), "%d/%d%n", &part, &parts, &end) == 2 &&
                    static_cast<std::size_t>(end) == text.size();
  if (!read || part < 1 || part > parts) {
    throw Error(ErrorKind::bad_input, "--part",
                fmt::format("found '{}'; expected K/N with 1 <= K <= N, as in 2/4", text));
  }
  return {part, parts};
}

// A Run line; its faults apart. Faults in the form of the trace belong to `train`.
FaultScenario scenario_of(const std::string& line) {
  FaultScenario scenario;
  scenario.config = parse_run_line(line);
  if (!scenario.config.run.fault.empty()) {
    scenario.faults = parse_faults(scenario.config.run.fault, "run.fault");
    check_injected_faults(scenario.config);
    scenario.config.run.fault.clear();
  }
  scenario.config = with_fault_defaults(scenario.config);
  check(scenario.config);
  return scenario;
}

FaultScenario load_scenario(const std::string& text) {
  if (!text.ends_with(".toml")) return scenario_of(text);
  const FaultScript script = load_fault_script(text);
  Config config = parse_run_line(script.run_line);
  if (!config.run.fault.empty()) {
    throw Error(ErrorKind::bad_input, text, "run: has a run.fault; expected [[fault]] alone");
  }
  FaultScenario scenario = scenario_of(script.run_line);
  scenario.faults = script.faults;
  scenario.expect = script.expect;
  scenario.recover_layout = script.recover;
  config.run.fault = shardproof::text(script.faults);
  check_injected_faults(config);
  return scenario;
}

Json to_json(const FaultScenario& scenario, const FaultResult& result) {
  Json runs = Json::array();
  for (const FaultRunEnd& run : result.runs) {
    runs.push_back({{"from", run.from},
                    {"fired", text(run.fired)},
                    {"outcome", name(run.outcome)},
                    {"error", run.error_kind},
                    {"said", run.said},
                    {"rank", run.named_rank},
                    {"seconds", run.seconds}});
  }
  return {{"faults", text(scenario.faults)},
          {"outcome", name(result.outcome)},
          {"pass", result.pass},
          {"why", result.why},
          {"runs", runs},
          {"replay", fault_replay_line(scenario)}};
}

std::string lines_of(const FaultScenario& scenario, const FaultResult& result) {
  std::string out = fmt::format("{}  {}  {}  ({:.2f} s)\n", result.pass ? "pass" : "FAIL",
                                name(result.outcome), text(scenario.faults), result.seconds);
  for (const FaultRunEnd& run : result.runs) {
    out += fmt::format("  {}{}: {}{}\n", run.from.empty() ? "from the start" : "from " + run.from,
                       run.fired.empty() ? "" : ", fired " + text(run.fired),
                       run.complete ? "complete" : run.error_kind,
                       run.said.empty() ? "" : ": " + run.said);
  }
  if (result.pass) return out;
  return out + fmt::format("  {}\n  replay: {}\n", result.why, fault_replay_line(scenario));
}

int discover_points(const Flags& flags) {
  FaultScenario scenario = scenario_of(flags.run);
  scenario.config.run.backend = "threads";  // processes pass the same points
  FaultRunner runner(2 * scenario.config.run.deadline);
  std::string out;
  Json json = Json::array();
  for (const PassedPoint& passed : runner.discover(scenario.config)) {
    std::string kinds;
    for (const FaultKind kind : passed.kinds) kinds += fmt::format(" {}", name(kind));
    out += fmt::format("{:<44}{:<36}{}\n", passed.point.text(), passed.what, kinds);
    json.push_back({{"point", passed.point.text()}, {"what", passed.what}, {"kinds", kinds}});
  }
  say(flags.json ? json.dump(1) + "\n" : out);
  return 0;
}

int campaign(const Flags& flags) {
  refuse_fault_variable(read_environment(), "faults");
  const StopSignal stop;
  CampaignOptions options;
  options.config = scenario_of(flags.run).config;
  if (flags.no_audit) options.config.guard.audit_every = 0;
  if (options.config.run.backend != "threads") {
    throw Error(ErrorKind::bad_input, "run.backend", "a campaign runs on thread ranks");
  }
  for (const std::string& kind : flags.kinds) {
    options.kinds.push_back(parse_fault_kind(kind, "--kinds"));
  }
  options.budget_seconds = flags.budget;
  std::tie(options.part, options.parts) = parse_part(flags.part);
  options.seed = static_cast<std::uint64_t>(flags.seed);
  options.hang_seconds = 2 * options.config.run.deadline;
  options.stop = &stop.flag();
  options.ended = [&](const FaultScenario& scenario, const FaultResult& result) {
    if (!result.pass || flags.verbose) say(lines_of(scenario, result));
  };
  const CampaignReport report = run_campaign(options);
  int ran = 0;
  for (const auto& [kind, count] : report.kinds) ran += count.ran;
  say(campaign_table(report));
  say(fmt::format(
      "{} fault points; {} scenarios in {:.1f} s ({:.0f} a second), {} left, {} failed\n",
      report.points, ran, report.seconds, ran / report.seconds, report.left, report.failed));
  if (stop.flag()) return 130;
  if (ran == 0) return 3;
  return report.failed > 0 ? 1 : 0;
}

}  // namespace

int run_faults(const std::string& run, bool json) {
  refuse_fault_variable(read_environment(), "faults");
  const FaultScenario scenario = load_scenario(run);
  if (scenario.faults.empty()) {
    throw Error(ErrorKind::bad_input, "run.fault",
                "nothing to inject; expected run.fault=POINT!KIND, such as "
                "run.fault=step:2:3:backward!kill");
  }
  FaultRunner runner(2 * scenario.config.run.deadline);
  const FaultResult result = runner.run(scenario);
  say(json ? to_json(scenario, result).dump(1) + "\n" : lines_of(scenario, result));
  return result.pass ? 0 : 1;
}

void add_faults(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("faults", "Inject faults and judge what comes of them");
  verb->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  CLI::App* list = verb->add_subcommand("list", "The kinds of faults, and what each may lead to");
  list->add_flag("--markdown", flags->markdown, "As the page docs/faults.md");
  list->footer("Examples:\n  shardproof faults list\n  shardproof faults list --markdown");
  list->callback([flags, &status] { status = list_faults(flags->markdown); });
  CLI::App* discover = verb->add_subcommand("discover", "Every fault point of a Run");
  discover->add_option("RUN", flags->run, "A Run line; empty: the default Case");
  discover->add_flag("--json", flags->json, "Print the points as JSON");
  discover->footer("Examples:\n  shardproof faults discover 'training.steps=2 run.layout=dp2'");
  discover->callback([flags, &status] { status = discover_points(*flags); });
  CLI::App* one = verb->add_subcommand("run", "One scenario: a script, or a Run line with a fault");
  one->add_option("SCRIPT", flags->run, "A .toml file, or a Run line with run.fault=POINT!KIND")
      ->required();
  one->add_flag("--json", flags->json, "Print the result as JSON");
  one->footer(
      "Examples:\n"
      "  shardproof faults run 'training.steps=6 run.fault=step:2:3:backward!kill'\n"
      "  shardproof faults run faults/scenarios/crash_after_commit.toml");
  one->callback([flags, &status] { status = run_faults(flags->run, flags->json); });
  CLI::App* all = verb->add_subcommand("campaign", "Every fault point x every kind that applies");
  all->add_option("RUN", flags->run, "A Run line; empty: the default Case");
  all->add_option("--kinds", flags->kinds, "These kinds alone")->delimiter(',');
  all->add_option("--budget", flags->budget, "Seconds; scenarios then run in a drawn order")
      ->check(CLI::PositiveNumber);
  all->add_option("--part", flags->part, "K/N: the K-th of N equal parts, for several machines");
  all->add_option("--seed", flags->seed, "Of that order (default: 1)")->check(integer_range(0));
  all->add_flag("--verbose", flags->verbose, "A line for every scenario");
  all->add_flag("--no-audit", flags->no_audit, "Show what is missed without guard.audit_every");
  all->footer(
      "Examples:\n"
      "  shardproof faults campaign 'training.steps=4 run.layout=dp2' --budget 60\n"
      "  shardproof faults campaign --kinds kill,dtype --budget 30 --seed 7");
  all->callback([flags, &status] { status = campaign(*flags); });
  add_faults_table(*verb, status);
  verb->footer(
      "Examples:\n"
      "  shardproof faults list\n"
      "  shardproof faults discover 'training.steps=2 run.layout=dp2'\n"
      "  shardproof faults run 'training.steps=6 run.fault=call:1:world:40:before!dtype'\n"
      "  shardproof faults run 'training.steps=6 run.fault=step:2:3:backward!kill;1/file:0:7:torn!"
      "kill'\n"
      "  shardproof faults run scenario.toml\n"
      "  shardproof faults campaign 'training.steps=4 run.layout=dp2' --budget 60\n"
      "  shardproof faults table\n"
      "Exit codes: 0 every outcome is one that is allowed, 1 one is not, 2 bad usage or input.");
}

}  // namespace shardproof
