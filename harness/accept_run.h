// accept_run: one corpus of an acceptance run: its legs, the check of its checkpoint by another
// process, its verdicts, and the second look that names an element where only a digest is known.
// Thread rule: one at a time per process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "harness/accept_plan.h"

namespace shardproof {

struct CorpusResult {
  Corpus corpus;
  std::vector<LegResult> legs;
  std::vector<Verdict> verdicts;
  std::optional<Manifest> manifest;  // of the checkpoint at the cut, when it can be read
  bool interrupted = false;

  const Trace* trace(const std::string& leg) const;  // null when there is none
};

struct CorpusRun {
  std::string out;                              // the run folder
  std::function<void(const std::string&)> say;  // a line of progress
  const std::atomic<bool>* stop = nullptr;
};

CorpusResult prove_corpus(const Corpus& corpus, const CorpusRun& run);

// Texts of a report depend neither on where its folder lies nor on the nonce of a save.
std::string reproducible(std::string text, const std::string& folder);

// The command that shows a failed verdict of this corpus again.
std::string replay_command(const Corpus& corpus, const Verdict& verdict);

}  // namespace shardproof
