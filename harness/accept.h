// accept: the main job: trains the mini GPT on several legs per corpus (main, one rank, repeat,
// resumed, killed) and judges their traces. Leaves one folder: expectations.json (written before
// the first step), legs/, checkpoints/, and the report. The folder is fresh; an existing one is
// refused before anything runs, as is every bad input. Thread rule: one at a time per process (legs
// share the process's signal handling).
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "harness/accept_plan.h"

namespace shardproof {

struct AcceptOptions {
  std::string text;    // of corpus (b); empty: a licence text of the system
  int ranks = 0;       // 0: as the layout says
  std::string layout;  // empty: dp<ranks>.zero1
  std::string backend = "threads";
  std::vector<std::string> set;  // KEY=VALUE, for both corpora
};

// The two corpora of the acceptance run. Error bad_input.
std::vector<Corpus> accept_corpora(const AcceptOptions& options);
// The one Run of `replay`. With `loss`, whether it learns is judged as well.
Corpus replay_corpus(const Config& config, bool loss);

struct ProofOptions {
  std::string title;
  std::string out;     // empty: the next free shardproof-report-<n>
  bool quiet = false;  // nothing on the screen but errors
  bool json = false;   // report.json on the screen, nothing else
  const std::atomic<bool>* stop = nullptr;
};

// Runs and judges; prints and writes the report. Returns the exit code, 130 when stopped.
int prove(const std::vector<Corpus>& corpora, const ProofOptions& options);

// Opens every input once, so that bad input ends a command before a folder is made.
void check_inputs(const std::vector<Corpus>& corpora);
// The folder of one run alone; `asked` empty: the next free shardproof-report-<n>.
std::string fresh_report_folder(const std::string& asked);

// What `git bisect run` is told: 125 (skip this commit) where nothing could be decided.
int bisect_exit_code(int exit_code);

// A licence text of the system, else the README of the sources. Error environment.
std::string default_text();

}  // namespace shardproof
