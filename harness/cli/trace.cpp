// trace: the verbs that judge traces of any program: check one, diff two.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "base/error.h"
#include "harness/accept_report.h"
#include "harness/cli/cli.h"
#include "harness/cli/option_values.h"
#include "invariants/run_facts.h"
#include "invariants/subject_checks.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

struct Arguments {
  std::string first, second;
  std::string float64;
  std::vector<std::string> benign;
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

// A trace that holds no config is of somebody's program: it is held to the public format alone.
// What its optimizer should have done is not known, so that is not judged.
std::vector<Verdict> verdicts_of(const Trace& trace, std::int64_t steps) {
  if (!says_config(trace)) {
    return {check_subject_live(trace, steps, {}), check_subject_cover(trace, {}),
            check_subject_data(trace, nullptr)};
  }
  return {check_live(trace, steps), check_cover(trace),           check_replicas(trace),
          check_data(trace),        check_optimizer_bytes(trace), check_optimizer(trace)};
}

int check_one(const Arguments& arguments) {
  const Trace trace = read_nonempty(arguments.first);
  std::vector<Verdict> verdicts = verdicts_of(trace, steps_asked(arguments, trace));
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

// Beside a float64 leg, or the spread of benign runs: what differs by more than rounding.
Verdict diff_by_rounding(const Arguments& arguments, const Trace& reference, const Trace& other) {
  std::vector<Trace> benign;
  for (const std::string& each : arguments.benign) benign.push_back(read_nonempty(each));
  SameStart start;
  start.found = &other;
  std::optional<Trace> float64;
  if (arguments.float64.empty()) {
    start.truth = &reference;
  } else {
    start.truth = &float64.emplace(read_nonempty(arguments.float64));
    start.references = {&reference};
  }
  for (const Trace& each : benign) start.references.push_back(&each);
  return check_subject_layout({start});
}

int diff_two(const Arguments& arguments) {
  const Trace reference = read_nonempty(arguments.first);
  const Trace other = read_nonempty(arguments.second);
  const bool by_rounding = !arguments.float64.empty() || !arguments.benign.empty();
  Verdict verdict =
      by_rounding ? diff_by_rounding(arguments, reference, other) : check_layout(reference, other);
  verdict.check = "diff";
  verdict.subject = arguments.first + " against " + arguments.second;
  if (arguments.json) {
    fmt::print("{}\n", verdict.to_json().dump(1));
  } else {
    if (verdict.outcome != Outcome::pass) {
      fmt::print("{}\n", verdict.difference ? verdict.difference->print() : verdict.reason);
      if (by_rounding && verdict.difference) fmt::print("{}\n", verdict.reason);
    }
    const bool noted =
        by_rounding || is_native(reference) || is_native(other) || imported_from(other);
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
      "A trace whose run event holds no \"config\" is of another program: live, cover and data.\n"
      "optimizer needs written tensors: shardproof train --trace DIR --trace-tensors all.\n"
      "Exit codes: 0 every verdict passes, 1 one fails, 2 trouble (the trace is missing, empty or\n"
      "cannot be read), 3 one is undecided.");
  check->callback([arguments, &status] { status = judged(check_one, *arguments); });
  CLI::App* diff = verb->add_subcommand("diff",
                                        "Compare two traces: bit for bit, or (--f64, --benign) "
                                        "up to rounding");
  diff->add_option("REF", arguments->first, "Folder of the trace that is right")->required();
  diff->add_option("OTHER", arguments->second, "Folder of the trace that is judged")->required();
  diff->add_option("--f64", arguments->float64,
                   "Trace of REF's layout in float64: gradients from the same weights, each as "
                   "close to it as 4 x REF is");
  diff->add_option("--benign", arguments->benign,
                   "Traces of benign runs of REF (reversed samples, other accumulation, repeat): "
                   "without --f64 their spread is allowed; three are needed")
      ->allow_extra_args(false);
  diff->add_flag("--json", arguments->json, "Print the verdict as JSON");
  diff->footer(
      "Examples:\n"
      "  shardproof trace diff legs/synthetic/dp1/trace legs/synthetic/main/trace\n"
      "  shardproof trace diff runs/ref runs/ddp2 --f64 runs/ref64\n"
      "  shardproof trace diff runs/ref runs/ddp2 --benign runs/reversed --benign runs/accumulate "
      "\\\n"
      "    --benign runs/repeat\n"
      "Prints the first difference: step, phase, tensor, piece, rank, element, index, the ranks "
      "that\n"
      "hold it on each side, both bit patterns, and how many times the rounding error it is.\n"
      "Native reduction on two layouts is compared from the same weights by a declared tolerance,\n"
      "and the output says so; on one layout bit for bit. Needs --trace-tensors -1,0 (or all).\n"
      "Exit codes as diff(1): 0 the same, 1 different, 2 trouble (nothing to compare, bad input).");
  diff->callback([arguments, &status] { status = judged(diff_two, *arguments); });
  add_trace_import(*verb, status);
}

}  // namespace shardproof
