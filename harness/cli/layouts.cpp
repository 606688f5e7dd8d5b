// layouts: the verb that proves the layout law, a row for every layout.
#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "base/error.h"
#include "base/temp_folder.h"
#include "harness/accept_report.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/option_values.h"
#include "harness/cli/stop_signal.h"
#include "harness/layout_table.h"
#include "harness/output_path.h"
#include "harness/say.h"

namespace shardproof {
namespace {

constexpr int interrupted_exit = 130;

struct Flags {
  LayoutOptions options;
  std::string kind;
  std::string out;
  std::string markdown;
  std::optional<int> steps;
  bool json = false;
};

void write_markdown(const std::string& path, const std::vector<PlannedLayout>& rows,
                    const std::vector<LayoutProof>& proofs) {
  std::ofstream file(path);
  file << layout_markdown(rows, proofs) << std::flush;
  if (!file) throw Error(ErrorKind::environment, "write " + path, "the table of layouts");
}

void tell(const Flags& flags, const std::string& text) {
  if (!flags.json) say(text + "\n");
}

int finish(const Flags& flags, const LayoutPlan& plan, const std::vector<LayoutProof>& proofs) {
  std::vector<Verdict> verdicts;
  Json json = Json::array();
  double seconds = 0;
  int equal = 0, native = 0, native_rows = 0;
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    verdicts.push_back(proofs[i].verdict);
    json.push_back(layout_json(plan.rows[i], proofs[i]));
    seconds += proofs[i].seconds;
    const bool by_bits = proofs[i].config.numerics.reduction != "native";
    if (proofs[i].verdict.outcome == Outcome::pass) ++(by_bits ? equal : native);
    native_rows += !by_bits;
  }
  if (flags.json) say(json.dump(1) + "\n");
  if (!flags.markdown.empty()) write_markdown(flags.markdown, plan.rows, proofs);
  std::string text = fmt::format("{} of {} rows have the bits of one rank", equal,
                                 static_cast<int>(proofs.size()) - native_rows);
  if (native_rows > 0) {
    text +=
        fmt::format(", {} of {} native rows are within rounding of float64", native, native_rows);
  }
  tell(flags, fmt::format("{} ({:.0f} s)", text, seconds));
  return exit_code(verdicts);
}

int run_layouts(Flags flags) {
  refuse_fault_variable(read_environment(), "layouts");
  if (flags.steps) flags.options.steps = *flags.steps;
  if (!flags.steps && flags.options.lengthy) flags.options.steps = 100;
  for (const CaseKind kind : case_kinds) {
    if (name(kind) == flags.kind) flags.options.kind = kind;
  }
  const LayoutPlan plan = plan_layouts(flags.options);
  if (!flags.markdown.empty()) check_new_file(flags.markdown);
  if (!flags.out.empty()) make_fresh_folder(flags.out);
  const TempFolder scratch;
  const StopSignal stop;
  LayoutProver prover(flags.out.empty() ? scratch.path() : flags.out, !flags.out.empty(),
                      &stop.flag());
  if (!plan.left_out.empty()) {
    tell(flags, fmt::format("{} rows of the table are not legal with --set and left out: {}",
                            plan.left_out.size(), plan.left_out.front()));
  }
  tell(flags, layout_header());
  std::vector<LayoutProof> proofs;
  for (const PlannedLayout& row : plan.rows) {
    LayoutProof proof =
        prover.prove(row.config, fmt::format("{:03}-{}", proofs.size(), row.config.run.layout));
    if (proof.interrupted) return interrupted_exit;
    tell(flags, layout_line(row, proof));
    if (proof.verdict.outcome != Outcome::pass) tell(flags, verdict_lines(proof.verdict));
    proofs.push_back(std::move(proof));
  }
  return finish(flags, plan, proofs);
}

}  // namespace

void add_layouts(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  LayoutOptions& options = flags->options;
  CLI::App* verb = app.add_subcommand(
      "layouts", "Prove that layouts give the bits of one rank: the table, all, or those typed");
  CLI::Option* typed =
      verb->add_option("LAYOUT", options.layouts, "Layouts to run instead of the table: dp2.tp2");
  CLI::Option* all =
      verb->add_flag("--all", options.all, "Every legal layout of each Case")->excludes(typed);
  verb->add_flag("--long", options.lengthy, "The rows of the table that are meant for 100 steps")
      ->excludes(typed)
      ->excludes(all);
  verb->add_option("--case", flags->kind, "shallow, deep or odd alone")
      ->check(CLI::IsMember({"shallow", "deep", "odd"}));
  verb->add_option("--max-ranks", options.max_ranks, "Of the table and of --all (default: 8)")
      ->check(integer_range(1, 64));
  verb->add_option("--steps", flags->steps, "Optimizer steps (default: 10; 100 with --long)")
      ->check(integer_range(2));
  verb->add_option("--set", options.set, "Set any key of the Cases: model.layers=4")
      ->type_name("KEY=VALUE");
  verb->add_option("--backend", options.backend,
                   "threads, mpi (of the table: the chosen rows), or both (default: both for the "
                   "table, else threads)")
      ->check(CLI::IsMember({"threads", "mpi", "both"}));
  verb->add_flag("--json", flags->json, "Print the rows as JSON");
  verb->add_option("--out", flags->out, "Keep all traces in this folder; must not exist")
      ->check(not_empty());
  verb->add_option("--markdown", flags->markdown, "Write the table into this file; must not exist")
      ->check(not_empty());
  verb->footer(
      "Examples:\n"
      "  shardproof layouts\n"
      "  shardproof layouts dp2.tp2.pp2.zero1 cp2-ulysses --steps 50\n"
      "  shardproof layouts --all --max-ranks 4 --case shallow --steps 2\n"
      "  shardproof layouts --set training.seed=7 --backend threads --json\n"
      "  shardproof layouts dp2 tp2 --set numerics.reduction=native\n"
      "A layout: dpA.tpB[.sp].cpC[-ring|-zigzag|-ulysses].ppD[-gpipe|-1f1b|-intV|-zb]\n"
      ".zeroK[-shardF]; parts of degree 1 left out. Bytes: of the rank that sends most, a step.\n"
      "Rows of reduction=native are judged by float64 on one rank, and run twice, bit for bit.\n"
      "Exit codes: 0 every row is equal, 1 one differs, 2 bad usage or input, 3 something is\n"
      "lacking or undecided, 130 on Ctrl-C.");
  verb->callback([flags, &status] { status = run_layouts(*flags); });
}

}  // namespace shardproof
