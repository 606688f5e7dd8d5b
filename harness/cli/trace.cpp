// trace: the verbs that judge traces of any program: check one, diff two.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>

#include "base/error.h"
#include "harness/accept_report.h"
#include "harness/cli/cli.h"
#include "harness/cli/option_values.h"
#include "invariants/run_facts.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

struct Arguments {
  std::string first, second;
  int steps = 0;
  bool json = false;
};

constexpr int same = 0, different = 1, trouble = 2;  // as diff(1)

// Error bad_input when there is nothing in it to judge.
Trace read_nonempty(const std::string& directory) {
  Trace trace = read_trace(directory);
  const bool empty = std::all_of(trace.ranks.begin(), trace.ranks.end(), [](const RankTrace& rank) {
    return rank.runs == 0 && rank.steps.empty();
  });
  if (empty) {
    throw Error(ErrorKind::bad_input, directory,
                "an empty trace: no rank file holds a run or step event; expected at least one");
  }
  return trace;
}

// The steps that were asked for: as typed, as the config in the trace says, or as many as were
// done.
std::int64_t steps_asked(const Arguments& arguments, const Trace& trace) {
  if (arguments.steps > 0) return arguments.steps;
  const std::vector<std::int64_t> done = trace.step_numbers();
  if (const auto steps = integer_fact(trace, "/config/training/steps")) {
    return *steps - (done.empty() ? 0 : done.front());
  }
  return static_cast<std::int64_t>(done.size());
}

int check_one(const Arguments& arguments) {
  const Trace trace = read_nonempty(arguments.first);
  std::vector<Verdict> verdicts = {check_live(trace, steps_asked(arguments, trace)),
                                   check_cover(trace),
                                   check_replicas(trace),
                                   check_data(trace),
                                   check_optimizer_bytes(trace),
                                   check_optimizer(trace)};
  Json json = Json::array();
  for (Verdict& verdict : verdicts) {
    verdict.subject = arguments.first;
    if (verdict.outcome == Outcome::fail) {
      verdict.replay = fmt::format("shardproof trace check {}", arguments.first);
    }
    json.push_back(verdict.to_json());
    if (!arguments.json) fmt::print("{}", verdict_lines(verdict));
  }
  if (arguments.json) fmt::print("{}\n", json.dump(1));
  return exit_code(verdicts);
}

int diff_two(const Arguments& arguments) {
  const Trace reference = read_nonempty(arguments.first);
  const Trace other = read_nonempty(arguments.second);
  Verdict verdict = check_layout(reference, other);
  verdict.check = "diff";
  verdict.subject = arguments.first + " against " + arguments.second;
  if (arguments.json) {
    fmt::print("{}\n", verdict.to_json().dump(1));
  } else {
    if (verdict.outcome != Outcome::pass) {
      fmt::print("{}\n", verdict.difference ? verdict.difference->print() : verdict.reason);
    }
    const bool noted = is_native(reference) || is_native(other) || imported_from(other);
    for (const std::string& note : noted ? verdict.notes : std::vector<std::string>()) {
      fmt::print("{}\n", note);
    }
  }
  switch (verdict.outcome) {
    case Outcome::pass:
      return same;
    case Outcome::fail:
      return different;
    default:
      return trouble;
  }
}

// What cannot be read or judged is trouble, whatever an Error's own code is.
int judged(int (*judge)(const Arguments&), const Arguments& arguments) try {
  return judge(arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "shardproof: %s\n", error.what());
  return trouble;
}

}  // namespace

void add_trace(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("trace", "Judge traces: of ours or of any program");
  verb->require_subcommand(1);
  verb->footer(
      "Examples:\n"
      "  shardproof trace check shardproof-report-1/legs/text/main/trace\n"
      "  shardproof trace diff legs/synthetic/dp1/trace legs/synthetic/main/trace");
  auto arguments = std::make_shared<Arguments>();
  CLI::App* check = verb->add_subcommand("check",
                                         "Check one trace: live, cover, replicas, data, "
                                         "optimizer");
  check->add_option("DIR", arguments->first, "Folder of rank_00000.jsonl")->required();
  check->add_option("--steps", arguments->steps, "Steps that were asked for")
      ->check(integer_range(1));
  check->add_flag("--json", arguments->json, "Print the verdicts as JSON");
  check->footer(
      "Examples:\n"
      "  shardproof trace check shardproof-report-1/legs/text/main/trace\n"
      "  shardproof trace check /tmp/trace --steps 100 --json\n"
      "optimizer needs written tensors: shardproof train --trace DIR --trace-tensors all.\n"
      "Exit codes: 0 every verdict passes, 1 one fails, 2 trouble (the trace is missing, empty or\n"
      "cannot be read), 3 one is undecided.");
  check->callback([arguments, &status] { status = judged(check_one, *arguments); });
  CLI::App* diff = verb->add_subcommand("diff", "Compare two traces bit for bit, step by step");
  diff->add_option("REF", arguments->first, "Folder of the trace that is right")->required();
  diff->add_option("OTHER", arguments->second, "Folder of the trace that is judged")->required();
  diff->add_flag("--json", arguments->json, "Print the verdict as JSON");
  diff->footer(
      "Examples:\n"
      "  shardproof trace diff legs/synthetic/dp1/trace legs/synthetic/main/trace\n"
      "Prints the first difference: step, phase, tensor, piece, rank, element, both bit patterns.\n"
      "Native reduction on two layouts is compared from the same weights by a declared tolerance,\n"
      "and the output says so; on one layout bit for bit. Needs --trace-tensors -1,0 (or all).\n"
      "Exit codes as diff(1): 0 the same, 1 different, 2 trouble (nothing to compare, bad input).");
  diff->callback([arguments, &status] { status = judged(diff_two, *arguments); });
  add_trace_import(*verb, status);
}

}  // namespace shardproof
