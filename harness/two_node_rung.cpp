// two_node_rung: two runs over the cable, and what their traces say.
#include "harness/two_node_rung.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "harness/accept_plan.h"
#include "harness/child.h"
#include "harness/launcher.h"
#include "harness/layout_run.h"
#include "harness/output_path.h"
#include "harness/two_nodes.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr int far_rank = 1;
constexpr auto run_deadline = std::chrono::seconds(120);  // a run takes seconds
constexpr const char* kill_phase = "backward";

std::string tail(const std::string& output) {
  constexpr std::size_t shown = 600;
  return output.size() <= shown ? output : "... " + output.substr(output.size() - shown);
}

Verdict failure(const std::string& reason) {
  Verdict verdict;
  verdict.outcome = Outcome::fail;
  verdict.reason = reason;
  return verdict;
}

// What a rank says it has sent to others.
std::uint64_t told_bytes(const Trace& trace, int rank) {
  double sum = 0;
  for (const RankTrace& each : trace.ranks) {
    if (each.rank != rank) continue;
    for (const StepRecord& step : each.steps) sum += step.extra.value("bytes_sent", 0.0);
  }
  return static_cast<std::uint64_t>(sum);
}

class TwoNodeProof {
 public:
  explicit TwoNodeProof(const TwoNodeRun& run)
      : run_(run), folder_(std::filesystem::absolute(run.folder).string()) {
    make_fresh_folder(folder_);
  }

  Verdict judge() {
    Verdict equal = judge_bits();
    if (equal.outcome != Outcome::pass || stopped()) return equal;
    Verdict killed = judge_kill();
    if (killed.outcome != Outcome::pass) return killed;
    equal.notes.push_back(fmt::format("the far rank was killed in step {} and named", kill_step()));
    return equal;
  }

 private:
  std::int64_t kill_step() const { return run_.config.training.steps / 2; }
  std::string trace_of(const std::string& name) const { return folder_ + "/" + name; }
  bool stopped() const { return run_.stop != nullptr && run_.stop->load(); }

  // As a user types it, on node 0. Nothing when it was stopped; its end kills what it started.
  std::optional<ChildResult> train(const Config& config, const std::string& name) {
    const std::string file = fmt::format("{}/{}.toml", nodes_.folder(), name);
    std::ofstream(file) << to_toml(config) << std::flush;
    const std::string program = run_.program.empty() ? own_executable() : run_.program;
    Child child(nodes_.on(0, {program, "train", file, "--hostfile", nodes_.hostfile(), "--trace",
                              trace_of(name)}),
                run_deadline, nodes_.environment());
    while (!child.ended(std::chrono::milliseconds(100))) {
      if (stopped()) return std::nullopt;
    }
    return child.result();
  }

  Verdict judge_bits() {
    Config alone = run_.config;
    alone.run = {};
    alone.run.layout = "dp1";
    const Trace reference = traced_in_memory(alone, nullptr, run_.stop);
    const std::uint64_t before = nodes_.bytes_sent(far_rank);
    const auto done = train(run_.config, "bits");
    if (!done) return {};
    if (done->exit_code != 0) {
      return failure(fmt::format("the run over two nodes ended with code {}: {}", done->exit_code,
                                 tail(done->output)));
    }
    const std::uint64_t carried = nodes_.bytes_sent(far_rank) - before;
    const Trace trace = read_trace(trace_of("bits"));
    Verdict verdict = judge_layout(reference, trace, run_.config.training.steps);
    const std::uint64_t told = told_bytes(trace, far_rank);
    if (verdict.outcome != Outcome::pass) return verdict;
    const std::string problem = cable_problem(carried, told);
    if (!problem.empty()) return failure(problem);
    verdict.notes.push_back(
        fmt::format("the cable carried the {} bytes that rank {} sent", told, far_rank));
    return verdict;
  }

  Verdict judge_kill() {
    Config config = run_.config;
    config.run.fault = fmt::format("{}:{}:{}:kill", far_rank, kill_step(), kill_phase);
    const auto done = train(config, "kill");
    if (!done) return {};
    if (done->timed_out) return failure("the run whose far rank was killed hung");
    Verdict verdict = check_kill(read_trace(trace_of("kill")), far_rank, kill_step(), kill_phase,
                                 kill_deadline_seconds);
    if (verdict.outcome == Outcome::pass) return verdict;
    verdict.reason = fmt::format("kill of the far rank: {}", verdict.reason);
    verdict.outcome = Outcome::fail;  // the nodes stand: an open verdict is a run that went wrong
    return verdict;
  }

  const TwoNodeRun& run_;
  const std::string folder_;
  const TwoNodes nodes_;
};

}  // namespace

std::string cable_problem(std::uint64_t carried, std::uint64_t sent) {
  if (sent > 0 && carried >= sent) return "";
  return fmt::format(
      "node {} put {} bytes on the cable and its rank sent {}: they went another way", far_rank,
      carried, sent);
}

Verdict judge_two_nodes(const TwoNodeRun& run) {
  if (find_mpirun().empty()) throw Error(ErrorKind::environment, "mpirun", "there is none");
  try {
    return TwoNodeProof(run).judge();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::environment) throw;
    return failure(error.what());
  }
}

}  // namespace shardproof
