// accept_corpora: which Cases the main job proves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/accept.h"
#include "mesh/layout.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

std::string chosen_layout(const AcceptOptions& options) {
  if (options.layout.empty()) {
    const int ranks = options.ranks == 0 ? 4 : options.ranks;
    return parse_layout(fmt::format("dp{}.zero1", ranks)).print();
  }
  const Layout layout = parse_layout(options.layout);
  if (options.ranks != 0 && options.ranks != layout.world()) {
    throw Error(ErrorKind::bad_input, "--ranks",
                fmt::format("found {}; expected {}, which --layout {} needs", options.ranks,
                            layout.world(), layout.print()));
  }
  return layout.print();
}

// What an acceptance run decides itself would be dropped without a word.
void check_set(const AcceptOptions& options) {
  for (const std::string& assignment : options.set) {
    const std::string key = assignment.substr(0, assignment.find('='));
    const bool chosen = key == "run.layout" && (!options.layout.empty() || options.ranks != 0);
    if (chosen) {
      throw Error(ErrorKind::bad_input, "--set " + assignment,
                  "run.layout is given twice; expected --layout or --ranks alone");
    }
    if (!key.starts_with("checkpoint.") && key != "run.fault") continue;
    throw Error(ErrorKind::bad_input, "--set " + assignment,
                key +
                    " is decided by the acceptance run: it saves where it cuts, and kills a rank "
                    "of its own choice (replay 'run.fault=...' kills another)");
  }
}

// The step of the kill: behind the checkpoint, a third of the way to the end (13 of 20).
void plan_kill(Corpus& corpus) {
  const std::int64_t cut = corpus.checkpoint_step();
  corpus.kill = true;
  corpus.kill_step = cut + (corpus.config.training.steps - cut) * 3 / 10;
  corpus.kill_rank = std::min(2, parse_layout(corpus.config.run.layout).world() - 1);
}

// A kill in a save needs a step that saves: the leg saves every checkpoint_step() steps and at the
// end.
void check_kill_phase(const Corpus& corpus) {
  if (corpus.kill_phase != name(Phase::save)) return;
  std::vector<std::int64_t> saving;
  for (std::int64_t step = corpus.checkpoint_step(); step < corpus.config.training.steps; ++step) {
    const bool last = step + 1 == corpus.config.training.steps;
    if (last || (step + 1) % corpus.checkpoint_step() == 0) saving.push_back(step);
  }
  if (std::find(saving.begin(), saving.end(), corpus.kill_step) != saving.end()) return;
  throw Error(
      ErrorKind::bad_input, "run.fault",
      fmt::format("found {}:{}:save:kill, but step {} does not save; expected step {}",
                  corpus.kill_rank, corpus.kill_step, corpus.kill_step, fmt::join(saving, " or ")));
}

}  // namespace

std::string default_text() {
  for (const char* path :
       {"/usr/share/common-licenses/GPL-3", SHARDPROOF_SOURCE_DIR "/README.md"}) {
    if (std::filesystem::is_regular_file(path)) return path;
  }
  throw Error(ErrorKind::environment, "/usr/share/common-licenses/GPL-3",
              "no text is here, and no README; give one with --text");
}

std::vector<Corpus> accept_corpora(const AcceptOptions& options) {
  check_set(options);
  Corpus synthetic, text;
  synthetic.name = "synthetic";
  synthetic.loss = LossRule::every_step;
  text.name = "text";
  text.loss = LossRule::quarters;
  text.config.data.kind = "text";
  text.config.data.path = options.text.empty() ? default_text() : options.text;
  text.config.model.vocabulary = 256;
  for (Corpus* corpus : {&synthetic, &text}) {
    corpus->config.run.layout = chosen_layout(options);
    corpus->config.run.backend = options.backend;
    Origins origins;
    for (const std::string& assignment : options.set) {
      set_key(corpus->config, assignment, &origins);
    }
    check(corpus->config, origins);
    check_corpus(*corpus);
  }
  plan_kill(synthetic);
  synthetic.faults = !synthetic.native();
  return {synthetic, text};
}

Corpus replay_corpus(const Config& config, bool loss) {
  Corpus out;
  out.name = "replay";
  out.config = config;
  out.config.checkpoint = {};
  if (loss) {
    const bool smooth = config.data.kind == "synthetic" && config.data.sources.empty();
    out.loss = smooth ? LossRule::every_step : LossRule::quarters;
  }
  if (!config.run.fault.empty()) {
    const TraceFault fault = parse_trace_fault(config.run.fault);
    if (fault.kind != TraceFault::Kind::kill) {
      throw Error(
          ErrorKind::bad_input, "run.fault",
          fmt::format("found {}; expected a kill: others are not judged yet", config.run.fault));
    }
    out.config.run.fault.clear();
    out.kill = true;
    out.kill_rank = fault.rank;
    out.kill_step = fault.step;
    out.kill_phase = std::string(name(fault.phase));
  }
  check(out.config);
  check_corpus(out);
  const int world = parse_layout(out.config.run.layout).world();
  if (out.kill &&
      (out.kill_rank < 0 || out.kill_rank >= world || out.kill_step < out.checkpoint_step() ||
       out.kill_step >= out.config.training.steps)) {
    throw Error(ErrorKind::bad_input, "run.fault",
                fmt::format("found rank {} at step {}; expected a rank below {} and a step from {} "
                            "(the checkpoint) to {}",
                            out.kill_rank, out.kill_step, world, out.checkpoint_step(),
                            out.config.training.steps - 1));
  }
  if (out.kill) check_kill_phase(out);
  return out;
}

}  // namespace shardproof
