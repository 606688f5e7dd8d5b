// ladder_rungs: six rungs from the checks that exist.
#include "harness/ladder_rungs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>

#include "base/error.h"
#include "harness/accept_faults.h"
#include "harness/ladder_recovery.h"
#include "harness/layout_run.h"
#include "harness/leg.h"
#include "harness/two_node_rung.h"
#include "invariants/compare_errors.h"
#include "invariants/trace_checks.h"
#include "mesh/layout.h"
#include "parallel/legality.h"
#include "train/sections.h"

namespace shardproof {
namespace {

// One token in sixteen of the synthetic corpus is drawn from the whole vocabulary
// (data/synthetic.h) and costs whoever has not seen it ln V. So a model that has learnt the rules
// of the corpus, but not the batch, comes no lower than ln V / 16 on average.
constexpr double overfit_share = 1.0 / 16;
constexpr int overfit_steps = 200;  // the default Case is there after 100, smaller ones after 140

using Names = std::vector<std::string>;

Names legal_of(const Config& config, std::initializer_list<const char*> names) {
  Names out;
  for (const char* name : names) {
    const Layout layout = parse_layout(name);
    if (problem(layout, shape_of(config), config.micro_batches()).empty()) out.emplace_back(name);
  }
  return out;
}

std::string listed(const Names& layouts) {
  return layouts.empty() ? "no layout" : fmt::format("{}", fmt::join(layouts, ", "));
}

Verdict none_legal() {
  Verdict verdict;
  verdict.reason = "no such layout is legal for this Case";
  return verdict;
}

class Rungs {
 public:
  Rungs(const Config& config, const LadderPlace& place)
      : config_(config), place_(place), prover_(place.out + "/legs", false, place.stop) {
    config_.parallel = {};
    config_.training.accumulation = 0;  // follows from the layout
  }

  Verdict one_batch() {
    const Leg leg{"one-batch", one_batch_case(config_), {}, std::nullopt};
    const LegResult done = run_leg(leg, place_.out + "/legs/one-batch", place_.stop);
    if (done.error) throw *done.error;
    return check_overfit(done.trace, leg.config.model.vocabulary, overfit_share);
  }

  // All of them, to the first that is not equal.
  Verdict layouts(const Names& names, const std::string& reduction) {
    if (names.empty()) return none_legal();
    Verdict last;
    for (const std::string& layout : names) {
      Config config = config_;
      config.run.layout = layout;
      config.numerics.reduction = reduction;
      LayoutProof proof = prover_.prove(config, fmt::format("{}-{}", layout, reduction));
      last = std::move(proof.verdict);
      if (last.outcome == Outcome::pass) continue;
      last.reason = fmt::format("{} ({}): {}", layout, last.check, last.reason);
      return last;
    }
    return last;
  }

  Verdict zero_and_precision(const Names& zero, const Names& native) {
    Verdict bits = layouts(zero, "canonical");
    if (bits.outcome != Outcome::pass) return bits;
    return layouts(native, "native");  // its first note is the worst ratio
  }

  Verdict two_nodes(const Names& names) {
    if (names.empty()) return none_legal();
    TwoNodeRun run{config_, place_.out + "/legs/two-nodes", place_.program, place_.stop};
    run.config.run.layout = names.front();
    run.config.run.backend = "mpi";
    return judge_two_nodes(run);
  }

  Verdict faults(const Names& names) {
    if (names.empty()) return none_legal();
    Corpus corpus;
    corpus.name = "ladder";
    corpus.config = config_;
    corpus.config.run.layout = names.front();
    corpus.faults = true;
    Verdict out;
    for (const Verdict& each : judge_faults(corpus, place_.stop)) {
      const Names notes = std::move(out.notes);
      out = each;
      out.notes.insert(out.notes.begin(), notes.begin(), notes.end());
      if (out.outcome == Outcome::pass) continue;
      out.reason = fmt::format("{}: {}", each.check, each.reason);
      return out;
    }
    Verdict recovered = judge_recoveries(config_, names.front(), place_.stop);
    recovered.notes.insert(recovered.notes.begin(), out.notes.begin(), out.notes.end());
    return recovered;
  }

 private:
  Config config_;
  const LadderPlace place_;
  LayoutProver prover_;
};

}  // namespace

Config one_batch_case(Config config) {
  const DataSection data = config.data;
  config.data = {};
  config.data.ignored = data.ignored;
  config.data.samples = config.training.global_batch;
  config.model.dropout = 0;
  config.model.label_smoothing = 0;
  config.training.steps = overfit_steps;
  config.training.accumulation = 0;
  config.training.warm_start.clear();
  config.parallel = {};
  config.run = {};
  config.run.layout = "dp1";
  return config;
}

std::string one_batch_trace(const LadderPlace& place) {
  return place.out + "/legs/one-batch/trace";
}

std::vector<Rung> plan_rungs(const Config& config, const LadderPlace& place) {
  const auto rungs = std::make_shared<Rungs>(config, place);
  const Names two = legal_of(config, {"dp2"});
  const Names larger = legal_of(config, {"dp4", "dp2.tp2", "dp4.tp2"});
  const Names zero = legal_of(config, {"dp4.zero1", "dp4.zero2", "dp4.zero3"});
  Names native = legal_of(config, {"dp2.tp2", "dp2"});
  native.resize(std::min(native.size(), std::size_t{1}));
  const Names faulty = legal_of(config, {"dp4.zero1", "dp2.zero1"});
  const int vocabulary = config.model.vocabulary;
  return {
      {"one batch",
       fmt::format("one rank, {} steps on one batch of {} samples: the loss falls to ln {} / 16 = "
                   "{:.3f}, where the rules of the corpus alone do not lead",
                   overfit_steps, config.training.global_batch, vocabulary,
                   overfit_share * std::log(vocabulary)),
       [=] { return rungs->one_batch(); }},
      {"two ranks", fmt::format("{}: the bits of one rank at every step", listed(two)),
       [=] { return rungs->layouts(two, "canonical"); }},
      {"larger world",
       fmt::format("{} at the same global batch: the bits of one rank", listed(larger)),
       [=] { return rungs->layouts(larger, "canonical"); }},
      {"zero, precision",
       fmt::format("{}: the bits of one rank; {} with the backend's sums: gradients at most {:g} x "
                   "as far from float64 as float32 on one rank (there is no mixed precision yet)",
                   listed(zero), listed(native), native_gradients().bound),
       [=] { return rungs->zero_and_precision(zero, native); }},
      {"two nodes",
       fmt::format("{} over two network namespaces (mpirun, hostfile, TCP alone): the bits of one "
                   "rank; SIGKILL of the far rank is named",
                   listed(two)),
       [=] { return rungs->two_nodes(two); }},
      {"faults, recovery",
       fmt::format("{}: a wrong dtype, a death before a commit, a flipped byte of a shard: each "
                   "found and named; what goes on, also restarted or in place with the ranks left, "
                   "has the bits of the run without it",
                   listed(faulty.empty() ? faulty : Names{faulty.front()})),
       [=] { return rungs->faults(faulty); }},
  };
}

}  // namespace shardproof
