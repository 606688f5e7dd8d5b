// trace import, export, scalars: scalars of programs that write no trace, from and to what they
// use.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "harness/cli/cli.h"
#include "harness/say.h"
#include "invariants/trace_checks.h"
#include "trace/import/event_file.h"
#include "trace/import/import_scalars.h"

namespace shardproof {
namespace {

struct Import {
  std::string format, file, directory;
  ScalarOptions options;
};
struct Export {
  std::string directory, file;
};
struct Scalars {
  std::string reference, other;
  bool json = false;
};

constexpr int same = 0, different = 1, trouble = 2;  // as diff(1)

int import_one(const Import& asked) {
  const ImportedScalars imported = import_scalars(scalar_format_from_name(asked.format), asked.file,
                                                  asked.directory, asked.options);
  for (const std::string& line : imported.said) say(line + "\n");
  return 0;
}

int export_one(const Export& asked) {
  const std::int64_t count = write_events(read_trace(asked.directory), asked.file);
  say(fmt::format("{} scalars written to {}, as float32\n", count, asked.file));
  return 0;
}

int compare_scalars_of(const Scalars& asked) try {
  Verdict verdict = check_scalars(read_trace(asked.reference), read_trace(asked.other));
  verdict.subject = asked.other + " against " + asked.reference;
  if (asked.json) {
    say(verdict.to_json().dump(1) + "\n");
  } else {
    if (verdict.outcome != Outcome::pass) {
      say((verdict.difference ? verdict.difference->print() : verdict.reason) + "\n");
    }
    for (const std::string& note : verdict.notes) say(note + "\n");
  }
  if (verdict.outcome == Outcome::pass) return same;
  return verdict.outcome == Outcome::fail ? different : trouble;
} catch (const std::exception& error) {  // what cannot be read is trouble, whatever its own code
  std::fprintf(stderr, "shardproof: %s\n", error.what());
  return trouble;
}

void add_import(CLI::App& trace, int& status) {
  const auto asked = std::make_shared<Import>();
  CLI::App* verb = trace.add_subcommand(
      "import", "Make a trace of scalars from a program's own log: tensors are not verified");
  verb->add_option("FORMAT", asked->format, "torchtitan, megatron or tensorboard")
      ->required()
      ->check(CLI::IsMember({"torchtitan", "megatron", "tensorboard"}));
  verb->add_option("FILE", asked->file,
                   "torchtitan's output; Megatron-LM's golden_values_*.json; an event file or a "
                   "folder of one run's")
      ->required();
  verb->add_option("DIR", asked->directory, "Folder of the new trace")->required();
  const auto tags = [&](const char* option, std::vector<std::string>& into, const char* what) {
    verb->add_option(option, into, what)->allow_extra_args(false);
  };
  tags("--loss-tag", asked->options.loss_tags, "The loss's name in FILE; may be given again");
  tags("--grad-norm-tag", asked->options.grad_norm_tags, "The gradient norm's name");
  tags("--lr-tag", asked->options.lr_tags, "The learning rate's name");
  verb->add_option("--first-step", asked->options.first_step,
                   "The number of the first step in FILE (1; tensorboard 0): a trace counts from 0")
      ->check(CLI::NonNegativeNumber);
  verb->footer(
      "Examples:\n"
      "  shardproof trace import torchtitan train.log trace\n"
      "  shardproof trace import megatron golden_values_dev_dgx_h100.json trace\n"
      "  shardproof trace import tensorboard runs/1 trace --loss-tag train/ce --first-step 1\n"
      "Only what is there is taken over; a step that has no gradient norm says so, and no check\n"
      "calls it equal to anything. Printed numbers keep their digits: two imports are compared as\n"
      "printed. `trace diff` of imports is undecided where their scalars are the same, for "
      "nothing\n"
      "was shown of tensors; `trace scalars` compares scalars alone.\n"
      "Exit codes: 0 written, 1 FILE is damaged, 2 bad input or DIR holds a trace.");
  verb->callback([asked, &status] { status = import_one(*asked); });
}

void add_export(CLI::App& trace, int& status) {
  const auto asked = std::make_shared<Export>();
  CLI::App* verb =
      trace.add_subcommand("export", "Write a trace's scalars to a TensorBoard event file");
  verb->add_option("DIR", asked->directory, "Folder of rank_00000.jsonl")->required();
  verb->add_option("FILE", asked->file, "The new file; its name must have tfevents in it")
      ->required();
  verb->footer(
      "Examples:\n"
      "  shardproof trace export trace runs/events.out.tfevents.1 && tensorboard --logdir runs\n"
      "Tags: loss, grad_norm, lr (the first rank's) and tokens/rank_00000. TensorBoard's scalars\n"
      "are float32: the trace keeps the exact values.\n"
      "Exit codes: 0 written, 1 the trace is damaged, 2 bad input or FILE exists.");
  verb->callback([asked, &status] { status = export_one(*asked); });
}

void add_scalars(CLI::App& trace, int& status) {
  const auto asked = std::make_shared<Scalars>();
  CLI::App* verb = trace.add_subcommand(
      "scalars", "Compare loss, gradient norm and learning rate of two traces alone");
  verb->add_option("REF", asked->reference, "Folder of the trace that is right")->required();
  verb->add_option("OTHER", asked->other, "Folder of the trace that is judged")->required();
  verb->add_flag("--json", asked->json, "Print the verdict as JSON");
  verb->footer(
      "Examples:\n"
      "  shardproof trace scalars imported/reference imported/dp2\n"
      "Equal scalars say nothing about tensors, and the output says so: Adam and clipping hide a\n"
      "gradient of the wrong scale. `trace diff` compares all that was traced.\n"
      "Exit codes as diff(1): 0 the same, 1 different, 2 trouble (a scalar on one side only,\n"
      "printed digits against bits, a run that did not end, bad input).");
  verb->callback([asked, &status] { status = compare_scalars_of(*asked); });
}

}  // namespace

void add_trace_import(CLI::App& trace, int& status) {
  add_import(trace, status);
  add_export(trace, status);
  add_scalars(trace, status);
}

}  // namespace shardproof
