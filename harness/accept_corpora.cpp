// accept_corpora: which Cases the main job proves.
#include <fmt/format.h>

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

// The step of the kill: behind the checkpoint, a third of the way to the end (13 of 20).
void plan_kill(Corpus& corpus) {
  const std::int64_t cut = corpus.checkpoint_step();
  corpus.kill = true;
  corpus.kill_step = cut + (corpus.config.training.steps - cut) * 3 / 10;
  corpus.kill_rank = std::min(2, parse_layout(corpus.config.run.layout).world() - 1);
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
  return {synthetic, text};
}

Corpus replay_corpus(const Config& config, bool loss) {
  Corpus out;
  out.name = "replay";
  out.config = config;
  out.config.checkpoint = {};
  if (loss) {
    out.loss = config.data.kind == "synthetic" ? LossRule::every_step : LossRule::quarters;
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
  return out;
}

}  // namespace shardproof
