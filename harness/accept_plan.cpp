// Legs and verdicts of a corpus.
#include "harness/accept_plan.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "harness/accept_faults.h"
#include "harness/native_legs.h"
#include "invariants/trace_checks.h"
#include "mesh/layout.h"
#include "parallel/legality.h"
#include "train/sections.h"

namespace shardproof {
namespace {

constexpr int shortest_run = 4;  // two steps before the cut and two behind it

std::string backend_words(const std::string& backend) {
  return backend == "mpi" ? "MPI processes" : "thread ranks";
}

// The backend's sums have the same bits on the same backend alone: a native run that was killed on
// MPI processes is compared with one on MPI processes.
bool needs_uncut_mpi(const Corpus& corpus) {
  return corpus.kill && corpus.native() && corpus.config.run.backend != "mpi";
}

void plan_layout_verdict(const Corpus& corpus, const std::string& subject,
                         std::vector<PlannedVerdict>& out) {
  if (corpus.native()) {
    const Config config = corpus.config;
    out.push_back({subject, native_legs(config),
                   [config](const Traces& t) { return judge_native_layout(config, t); }});
    return;
  }
  out.push_back({subject, {"dp1", "main"}, [](const Traces& t) {
                   return check_layout(trace_of(t, "dp1"), trace_of(t, "main"));
                 }});
}

// Legal for the Case, and not `config`'s own: what one layout saved, another continues.
std::string other_layout(const Config& config) {
  const Layout own = parse_layout(config.run.layout);
  for (const char* text : {"dp2.tp2.zero3", "dp2.tp2.zero1", "dp2.zero3", "tp2.sp", "dp2"}) {
    const Layout layout = parse_layout(text);
    if (layout == own) continue;
    if (problem(layout, shape_of(config), config.micro_batches()).empty()) return text;
  }
  return "dp1";  // always legal; for a run on dp1 that has a single piece of everything
}

}  // namespace

Config run_of(const Corpus& corpus) {
  Config out = corpus.config;
  out.checkpoint = {};
  if (corpus.kill) {
    out.run.fault =
        fmt::format("{}:{}:{}:kill", corpus.kill_rank, corpus.kill_step, corpus.kill_phase);
  }
  return out;
}

void check_corpus(const Corpus& corpus) {
  if (corpus.config.training.steps >= shortest_run) return;
  throw Error(
      ErrorKind::bad_input, "training.steps",
      fmt::format("found {}; expected at least {}: a run is cut in two, and lost moments show "
                  "only in the second step behind the cut",
                  corpus.config.training.steps, shortest_run));
}

std::vector<Leg> plan_legs(const Corpus& corpus, const std::string& checkpoints) {
  const std::int64_t cut = corpus.checkpoint_step(), last = corpus.config.training.steps - 1;
  const std::string id = step_id(cut);
  Leg plain{"", corpus.config, {}, std::nullopt};
  plain.config.checkpoint = {};
  plain.config.run.fault.clear();
  const auto saving = [&](const std::string& name) {
    CheckpointSection section;
    section.directory = checkpoints + "/" + name;
    section.every = static_cast<int>(cut);
    return section;
  };
  const auto loading = [&](const std::string& name) {
    CheckpointSection section;
    section.directory = checkpoints + "/" + name;
    section.last = false;
    return section;
  };
  Leg main = plain, reference = plain, repeat = plain, resumed = plain;
  main.name = "main";
  main.config.checkpoint = saving("main");
  main.capture = {-1, 0, 1, cut, cut + 1, last - 1, last};
  reference.name = "dp1";
  reference.config.run.layout = "dp1";
  reference.config.parallel = {};  // how the layout divides, and offloads, is on trial
  repeat.name = "repeat";
  resumed.name = "resumed";
  resumed.config.checkpoint = loading("main");
  resumed.resume = id;
  std::vector<Leg> out = {main};
  if (corpus.native()) {
    for (const Leg& leg : lone_legs(main)) out.push_back(leg);
  } else {
    out.push_back(reference);
  }
  out.push_back(repeat);
  out.push_back(resumed);
  if (!corpus.native()) {  // native sums follow the layout: no other continues them
    Leg resharded = resumed;
    resharded.name = "resharded";
    resharded.config.run.layout = other_layout(corpus.config);
    resharded.config.parallel = {};
    resharded.config.training.accumulation = 0;  // follows from the layout
    out.push_back(resharded);
  }
  if (needs_uncut_mpi(corpus)) {
    Leg uncut = plain;
    uncut.name = "uncut-mpi";
    uncut.config.run.backend = "mpi";
    out.push_back(uncut);
  }
  if (corpus.kill) {
    Leg kill = plain, again = plain;
    kill.name = "kill";
    kill.config.run.backend = "mpi";
    kill.config.checkpoint = saving("kill");
    kill.config.run.fault = run_of(corpus).run.fault;
    again.name = "kill-resumed";
    again.config.run.backend = "mpi";
    again.config.checkpoint = loading("kill");
    again.resume = id;
    out.push_back(kill);
    out.push_back(again);
  }
  return out;
}

std::vector<PlannedVerdict> plan_verdicts(const Corpus& corpus) {
  const std::int64_t steps = corpus.config.training.steps, cut = corpus.checkpoint_step();
  const std::string layout = corpus.config.run.layout;
  const std::string main =
      fmt::format("{}: {} on {}", corpus.name, layout, backend_words(corpus.config.run.backend));
  std::vector<PlannedVerdict> out;
  const auto single = [&](Verdict (*check)(const Trace&)) {
    out.push_back(
        {main, {"main"}, [check](const Traces& t) { return check(trace_of(t, "main")); }});
  };
  const auto judge = [&](const std::string& subject, std::vector<std::string> legs,
                         std::function<Verdict(const Traces&)> body) {
    out.push_back({subject, std::move(legs), std::move(body)});
  };
  judge(main, {"main"}, [=](const Traces& t) { return check_live(trace_of(t, "main"), steps); });
  single(check_cover);
  single(check_replicas);
  plan_layout_verdict(corpus, main, out);
  judge(main, {"main", "repeat"},
        [](const Traces& t) { return check_repeat(trace_of(t, "main"), trace_of(t, "repeat")); });
  judge(main, {"main"}, [](const Traces& t) { return check_data(trace_of(t, "main")); });
  if (corpus.loss == LossRule::every_step) {
    judge(main, {"main"},
          [](const Traces& t) { return check_loss_falls(trace_of(t, "main"), 0.02, 0.8); });
  } else if (corpus.loss == LossRule::quarters) {
    judge(main, {"main"},
          [](const Traces& t) { return check_loss_falls_by_quarters(trace_of(t, "main"), 0.95); });
  }
  single(check_optimizer_bytes);
  single(check_optimizer);
  judge(main, {"main"},
        [=](const Traces& t) { return check_verified(trace_of(t, "main"), step_id(cut)); });
  judge(main, {"main", "resumed"}, [=](const Traces& t) {
    return check_resume(trace_of(t, "main"), trace_of(t, "resumed"), cut);
  });
  if (!corpus.native()) {
    const std::string elsewhere =
        fmt::format("{}, continued on {}", main, other_layout(corpus.config));
    judge(elsewhere, {"main", "resharded"}, [=](const Traces& t) {
      Verdict verdict = check_resume(trace_of(t, "main"), trace_of(t, "resharded"), cut);
      verdict.check = "reshard";
      return verdict;
    });
  }
  if (corpus.kill) {
    const std::string killed = fmt::format("{}: {} on MPI processes, rank {} killed", corpus.name,
                                           layout, corpus.kill_rank);
    judge(killed, {"kill"}, [=](const Traces& t) {
      return check_kill(trace_of(t, "kill"), corpus.kill_rank, corpus.kill_step, corpus.kill_phase,
                        kill_deadline_seconds);
    });
    const std::string uncut = needs_uncut_mpi(corpus) ? "uncut-mpi" : "main";
    judge(killed, {uncut, "kill-resumed"}, [=](const Traces& t) {
      Verdict verdict = check_resume(trace_of(t, uncut), trace_of(t, "kill-resumed"), cut);
      verdict.check = "kill-resume";
      return verdict;
    });
  }
  return out;
}

Json expectations(const std::vector<Corpus>& corpora) {
  Json out = Json::array();
  for (const Corpus& corpus : corpora) {
    for (const PlannedVerdict& planned : plan_verdicts(corpus)) {
      const Verdict verdict = planned.judge({});
      out.push_back(Json{{"corpus", corpus.name},
                         {"check", verdict.check},
                         {"subject", planned.subject},
                         {"legs", planned.legs},
                         {"expected", verdict.sentence}});
    }
    for (const PlannedFault& planned : plan_faults(corpus)) {
      out.push_back(Json{{"corpus", corpus.name},
                         {"check", planned.check},
                         {"subject", planned.subject},
                         {"legs", Json::array()},
                         {"expected", planned.sentence}});
    }
  }
  return out;
}

}  // namespace shardproof
