// accept, replay: the verbs that prove.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "harness/accept.h"
#include "harness/accept_ladder.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/option_values.h"
#include "harness/cli/stop_signal.h"
#include "harness/judge/accept_subject.h"
#include "harness/ladder_rungs.h"
#include "harness/rank_faults.h"

namespace shardproof {
namespace {

struct ProveFlags {
  std::string out;
  bool json = false;
  bool bisect = false;
};

void add_flags(CLI::App& verb, ProveFlags& flags) {
  verb.add_option("--out", flags.out,
                  "Folder of the report; must not exist (default: shardproof-report-<n>)")
      ->check(not_empty());
  verb.add_flag("--json", flags.json, "Print report.json instead of the screen");
  verb.add_flag("--bisect", flags.bisect, "Exit 125 instead of 3, for git bisect run");
}

// It starts its own ranks: as a rank of somebody else's it would run as often as there are ranks.
void check_environment(const std::string& verb) {
  const Environment environment = read_environment();
  refuse_fault_variable(environment, verb);
  const auto started = started_as(environment);
  if (!started) return;
  throw Error(ErrorKind::bad_input, verb,
              fmt::format("was started {} times by mpirun or srun (this is rank {}); expected to "
                          "be started once: it starts its own ranks, as processes with {}",
                          started->world, started->rank,
                          verb == "accept" ? "--backend mpi" : "run.backend=mpi"));
}

ProofOptions proof_options(const std::string& title, const ProveFlags& flags,
                           const StopSignal& stop) {
  ProofOptions options;
  options.title = title;
  options.out = flags.out;
  options.json = flags.json;
  options.stop = &stop.flag();
  return options;
}

int run_proof(const std::vector<Corpus>& corpora, const std::string& title,
              const ProveFlags& flags) {
  const StopSignal stop;
  return prove(corpora, proof_options(title, flags, stop));
}

int run_ladder(const AcceptOptions& accept, int rung, const ProveFlags& flags) {
  const StopSignal stop;
  LadderOptions options;
  options.backend = accept.backend;
  options.set = accept.set;
  options.rung = rung;
  return climb_ladder(options, proof_options("Shardproof ladder", flags, stop));
}

int run_subject(const SubjectOptions& subject, const ProveFlags& flags) {
  const StopSignal stop;
  return accept_subject(subject,
                        proof_options("Shardproof judgement of " + subject.file, flags, stop));
}

// An Error that says 3 must be mapped, too, so it is printed here.
template <typename Body>
int with_bisect(bool bisect, const Body& body) {
  if (!bisect) return body();
  int code = 0;
  try {
    code = body();
  } catch (const Error& error) {
    std::fprintf(stderr, "shardproof: %s\n", error.what());
    code = exit_code(error.kind());
  }
  return bisect_exit_code(code);
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) out.push_back(word);
  return out;
}

// A run line, or the first line of @FILE. A line is never empty: "$forgotten" is no run.
std::string read_run(const std::string& argument) {
  if (argument.find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(ErrorKind::bad_input, "replay",
                "found an empty run line; expected one such as "
                "'run.layout=dp4.zero1'");
  }
  if (!argument.starts_with('@')) return argument;
  const std::string path = argument.substr(1);
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.find_first_not_of(" \t\r") == std::string::npos) {
    throw Error(ErrorKind::bad_input, path, "cannot be read, or is empty; expected a run line");
  }
  return line;
}

}  // namespace

void add_accept(CLI::App& app, int& status) {
  struct Arguments : AcceptOptions, ProveFlags {
    bool ladder = false;
    int rung = 0;
    SubjectOptions subject;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand(
      "accept", "Train on several layouts, compare them bit for bit, write a report");
  CLI::Option* text = verb->add_option("--text", arguments->text,
                                       "Text file of the second corpus (default: a licence)")
                          ->check(not_empty());
  CLI::Option* ranks =
      verb->add_option("--ranks", arguments->ranks, "Ranks of the main leg (default: 4)")
          ->check(integer_range(1));
  CLI::Option* backend = verb->add_option("--backend", arguments->backend,
                                          "threads (of this process) or mpi (processes)")
                             ->check(CLI::IsMember({"threads", "mpi"}));
  CLI::Option* layout =
      verb->add_option("--layout", arguments->layout,
                       "dp4.zero1, or dp=4,zero=1; with --subject: only these of its layouts")
          ->check(not_empty());
  verb->add_option("--set", arguments->set,
                   "Set any key of both configs (training.steps=10), or of the subject file "
                   "(subject.steps=8)")
      ->type_name("KEY=VALUE");
  CLI::Option* ladder =
      verb->add_flag("--ladder", arguments->ladder,
                     "Climb from one batch on one rank to two nodes and faults; stops at the first "
                     "rung that fails")
          ->excludes(text)
          ->excludes(ranks)
          ->excludes(layout);
  verb->add_option("--rung", arguments->rung, "This rung of the ladder alone")
      ->check(integer_range(1, rung_count))
      ->needs(ladder);
  CLI::Option* subject =
      verb->add_option("--subject", arguments->subject.file,
                       "Judge a program that is not ours: the file that says how it is started")
          ->check(not_empty())
          ->excludes(text)
          ->excludes(ranks)
          ->excludes(backend)
          ->excludes(ladder);
  verb->add_option("--only", arguments->subject.choice.checks,
                   "Only these checks: live,cover,repeat,layout,resume,kill,data,checkpoint")
      ->delimiter(',')
      ->needs(subject);
  add_flags(*verb, *arguments);
  verb->footer(
      "Examples:\n"
      "  shardproof accept\n"
      "  shardproof accept --backend mpi --text book.txt\n"
      "  shardproof accept --layout dp2 --set training.steps=40 --out evidence\n"
      "  shardproof accept --ladder\n"
      "  shardproof accept --subject theirs.toml --only live,layout --out evidence\n"
      "  git bisect run build/release/bin/shardproof accept --bisect\n"
      "Exit codes: 0 every verdict passes, 1 one fails, 2 bad usage or input, 3 something is "
      "lacking "
      "or\nundecided, 130 stopped by Ctrl-C, SIGTERM or a closed terminal.");
  verb->callback([arguments, &status] {
    status = with_bisect(arguments->bisect, [&] {
      check_environment("accept");
      if (!arguments->subject.file.empty()) {
        arguments->subject.choice.layouts = split_list(arguments->layout);
        arguments->subject.set = arguments->set;
        return run_subject(arguments->subject, *arguments);
      }
      if (arguments->ladder) return run_ladder(*arguments, arguments->rung, *arguments);
      return run_proof(accept_corpora(*arguments), "Shardproof acceptance run", *arguments);
    });
  });
}

void add_replay(CLI::App& app, int& status) {
  struct Arguments : ProveFlags {
    std::string run;
    bool loss = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("replay", "Run a Run again and judge it as accept does");
  verb->add_option("RUN", arguments->run,
                   "Keys that are not at their defaults, as accept and traces print them, or @FILE")
      ->required();
  verb->add_flag("--loss", arguments->loss, "Judge also whether the loss falls");
  add_flags(*verb, *arguments);
  verb->footer(
      "Examples:\n"
      "  shardproof replay 'training.seed=7 run.layout=dp2.zero1'\n"
      "  shardproof replay 'run.fault=2:13:backward:kill'\n"
      "  shardproof replay 'run.layout=dp2 run.fault=file:0:link.0:after!kill'\n"
      "  shardproof replay @shardproof-report-1/legs/synthetic/main/run.txt");
  verb->callback([arguments, &status] {
    status = with_bisect(arguments->bisect, [&] {
      check_environment("replay");
      const std::string line = read_run(arguments->run);
      const Config config = parse_run_line(line);
      if (is_injected(config.run.fault)) {
        if (arguments->out.empty() && !arguments->loss) return run_faults(line, arguments->json);
        throw Error(ErrorKind::bad_input, arguments->loss ? "--loss" : "--out",
                    "a fault scenario says its verdict and writes no report; expected neither");
      }
      return run_proof({replay_corpus(config, arguments->loss)}, "Shardproof replay", *arguments);
    });
  });
}

}  // namespace shardproof
