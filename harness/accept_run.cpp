// Runs the legs of a corpus and judges them.
#include "harness/accept_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "checkpoint/load.h"
#include "checkpoint/storage.h"
#include "harness/accept_faults.h"
#include "harness/child.h"
#include "harness/lone_leg.h"
#include "trace/writer.h"

namespace shardproof {
namespace {

constexpr auto verify_deadline = std::chrono::seconds(60);

Traces traces_of(const std::vector<LegResult>& legs) {
  Traces out;
  for (const LegResult& leg : legs) out[leg.leg.name] = leg.trace;
  return out;
}

// A leg that was to be killed and reports the death of that rank did what it was asked.
bool was_meant_to_die(const LegResult& result) {
  return !result.leg.config.run.fault.empty() && result.error->kind() == ErrorKind::peer_died;
}

class Prover {
 public:
  Prover(const Corpus& corpus, const CorpusRun& run) : run_(run) { result_.corpus = corpus; }

  CorpusResult prove() {
    for (const Leg& leg : plan_legs(result_.corpus, checkpoints())) {
      result_.legs.push_back(
          run_one(leg, fmt::format("{}/legs/{}/{}", run_.out, result_.corpus.name, leg.name)));
      if (stopped()) return interrupted();
      if (leg.name == "main") verify();
    }
    const Traces traces = traces_of(result_.legs);
    for (const PlannedVerdict& planned : plan_verdicts(result_.corpus)) {
      result_.verdicts.push_back(judge(planned, traces));
      if (stopped()) return interrupted();
    }
    for (Verdict& verdict : judge_faults(result_.corpus, run_.stop)) {
      verdict.reason = reproducible(verdict.reason);
      result_.verdicts.push_back(std::move(verdict));
    }
    if (stopped()) return interrupted();
    return std::move(result_);
  }

 private:
  std::string checkpoints() const { return run_.out + "/checkpoints/" + result_.corpus.name; }
  bool stopped() const { return stopped_ || (run_.stop != nullptr && run_.stop->load()); }
  CorpusResult interrupted() {
    result_.interrupted = true;
    return std::move(result_);
  }

  LegResult run_one(const Leg& leg, const std::string& directory) {
    if (!leg.config.checkpoint.directory.empty()) {
      std::filesystem::create_directories(
          std::filesystem::path(leg.config.checkpoint.directory).parent_path());
    }
    LegResult result = leg.weights_of.empty()
                           ? run_leg(leg, directory, run_.stop)
                           : run_lone_leg(leg, trace_of(leg.weights_of), directory);
    stopped_ = stopped_ || result.interrupted;
    run_.say(fmt::format("  leg {:<13} {:<10} {:<8} {:6.2f} s{}", leg.name, leg.config.run.layout,
                         leg.weights_of.empty() ? leg.config.run.backend : "lone", result.seconds,
                         result.error ? std::string("  ended by ") + result.error->what() : ""));
    return result;
  }

  const Trace& trace_of(const std::string& name) const {
    static const Trace none;
    for (const LegResult& done : result_.legs) {
      if (done.leg.name == name) return done.trace;
    }
    return none;
  }

  // In another process, which shares nothing with the one that saved.
  void verify() {
    const std::string id = step_id(result_.corpus.checkpoint_step());
    const std::string directory = checkpoints() + "/main";
    const ChildResult child = run_child({own_executable(), "checkpoint", "verify", directory, id},
                                        std::chrono::duration_cast<Duration>(verify_deadline));
    append_harness_event(result_.legs.back().trace.directory,
                         Json{{"kind", "verify"},
                              {"id", id},
                              {"exit_code", child.timed_out ? -1 : child.exit_code},
                              {"output", reproducible(child.output)}});
    result_.legs.back().trace = read_trace(result_.legs.back().trace.directory);
    try {
      result_.manifest = read_manifest(*posix_storage(directory, false), id);
    } catch (const Error&) {
      // The verdict "checkpoint" says what is wrong; there is just no table of it.
    }
  }

  std::string reproducible(std::string text) const {
    return shardproof::reproducible(std::move(text), run_.out);
  }

  Verdict judge(const PlannedVerdict& planned, const Traces& traces) {
    Verdict verdict;
    const LegResult* broken = nullptr;
    for (const LegResult& leg : result_.legs) {
      const bool mine =
          std::find(planned.legs.begin(), planned.legs.end(), leg.leg.name) != planned.legs.end();
      if (mine && leg.error && !was_meant_to_die(leg) && broken == nullptr) broken = &leg;
    }
    if (broken != nullptr) {
      verdict = planned.judge({});
      const bool lacking = exit_code(broken->error->kind()) == exit_code(ErrorKind::environment);
      verdict.outcome = lacking ? Outcome::inconclusive : Outcome::fail;
      verdict.reason = fmt::format("leg {} ended early: {}", broken->leg.name,
                                   reproducible(broken->error->what()));
    } else {
      verdict = judge_traces(planned, traces);
      if (verdict.outcome == Outcome::fail) name_element(planned, verdict);
    }
    verdict.subject = planned.subject;
    if (verdict.outcome == Outcome::fail) verdict.replay = replay_command(result_.corpus, verdict);
    return verdict;
  }

  Verdict judge_traces(const PlannedVerdict& planned, const Traces& traces) {
    try {
      return planned.judge(traces);
    } catch (const Error& error) {  // a trace that contradicts itself
      Verdict verdict = planned.judge({});
      verdict.outcome = Outcome::fail;
      verdict.reason = reproducible(error.what());
      return verdict;
    }
  }

  // Only a digest differs: the same legs again, with the bytes of that step.
  void name_element(const PlannedVerdict& planned, Verdict& verdict) {
    if (!verdict.difference || verdict.difference->tensor.empty() ||
        verdict.difference->element >= 0) {
      return;
    }
    const std::int64_t step = verdict.difference->step;
    const std::string folder =
        fmt::format("{}/legs/{}/again-{}", run_.out, result_.corpus.name, ++second_looks_);
    Traces traces;
    for (const LegResult& done : result_.legs) {
      const Leg& first = done.leg;
      if (std::find(planned.legs.begin(), planned.legs.end(), first.name) == planned.legs.end()) {
        continue;
      }
      Leg leg = first;
      leg.capture = {step};
      if (!leg.resume) leg.config.checkpoint = {};
      const LegResult again = run_one(leg, folder + "/" + leg.name);
      traces[leg.name] = again.trace;
    }
    const Verdict second = judge_traces(planned, traces);
    if (second.outcome == Outcome::fail && second.difference && second.difference->element >= 0) {
      verdict.difference = second.difference;
      verdict.reason = second.reason;
      verdict.notes.push_back(
          "the element was named by running the legs again with this step's "
          "bytes captured");
    } else {
      verdict.notes.push_back(
          "the difference did not come back when the legs ran again: the program "
          "is not reproducible");
    }
  }

  const CorpusRun& run_;
  CorpusResult result_;
  bool stopped_ = false;
  int second_looks_ = 0;
};

}  // namespace

const Trace* CorpusResult::trace(const std::string& leg) const {
  for (const LegResult& each : legs) {
    if (each.leg.name == leg && !each.trace.ranks.empty()) return &each.trace;
  }
  return nullptr;
}

std::string reproducible(std::string text, const std::string& folder) {
  const std::string prefix = folder + "/";
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
    text.erase(at, prefix.size());
  }
  static const std::regex nonce("\\.shards-[0-9a-f]+");
  return std::regex_replace(text, nonce, ".shards");
}

CorpusResult prove_corpus(const Corpus& corpus, const CorpusRun& run) {
  return Prover(corpus, run).prove();
}

std::string replay_command(const Corpus& corpus, const Verdict& verdict) {
  Config config = run_of(corpus);
  if (!verdict.check.starts_with("kill")) config.run.fault.clear();  // the shorter way
  return fmt::format("shardproof replay {}'{}'", verdict.check == "loss falls" ? "--loss " : "",
                     run_line(config));
}

}  // namespace shardproof
