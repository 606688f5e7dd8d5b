// bench: the verb of measurements. Each sub-verb prints a table, or JSON, of one run on this
// machine.
#include <fmt/core.h>

#include "harness/bench/cases.h"
#include "harness/bench/checkpoint.h"
#include "harness/bench/comm.h"
#include "harness/bench/crashes.h"
#include "harness/bench/faults.h"
#include "harness/bench/guards.h"
#include "harness/bench/offload.h"
#include "harness/bench/overlap.h"
#include "harness/bench/pipeline.h"
#include "harness/bench/recovery.h"
#include "harness/bench/reduction.h"
#include "harness/bench/step.h"
#include "harness/bench/trace.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/option_values.h"

namespace shardproof {

namespace {

// What every bench ends with: a table or JSON, and a judgement where something is asked of it.
struct Given {
  bool json = false;
  bool check = false;
};

template <typename Options>
struct Bench {
  Json (*run)(const Options&);
  void (*print)(const Json&);
  int (*judge)(const Json&);  // null: nothing is asked
};

template <typename Options>
void add_output(CLI::App* verb, int& status, std::shared_ptr<Options> options,
                const Bench<Options>& bench, const char* check) {
  auto given = std::make_shared<Given>();
  verb->add_flag("--json", given->json, "Print JSON");
  if (bench.judge != nullptr) verb->add_flag("--check", given->check, check);
  verb->callback([options, given, bench, &status] {
    const Json result = bench.run(*options);
    if (given->json) {
      fmt::print("{}\n", result.dump());
    } else {
      bench.print(result);
    }
    if (given->check) status = bench.judge(result);
  });
}

void add_comm(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::CommBenchOptions>();
  CLI::App* verb = bench.add_subcommand("comm", "All-reduce: threads, our MPI ranks, plain MPI");
  verb->add_option("--ranks", options->ranks, "Number of ranks")
      ->check(integer_range(1, 64))
      ->capture_default_str();
  verb->add_flag("--quick", options->quick, "A tenth of the repeats");
  add_output<bench::CommBenchOptions>(
      verb, status, options,
      {bench::run_comm_bench, bench::print_comm_bench, bench::comm_bench_status},
      "Exit 1 when a figure asked for is not met, 3 when one could not be compared");
  verb->footer(
      "Examples:\n"
      "  shardproof bench comm\n"
      "  shardproof bench comm --ranks 2 --json");
}

void add_step(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::StepBenchOptions>();
  CLI::App* verb =
      bench.add_subcommand("step", "A training step on MPI ranks against PyTorch DDP and FSDP2");
  verb->add_option("--ranks", options->ranks, "Number of ranks")
      ->check(integer_range(1, 8))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "Turns of ours and theirs; medians count")
      ->check(integer_range(1, 100))
      ->capture_default_str();
  verb->add_option("--python", options->python, "A Python with torch (ci/install --peers)");
  verb->add_flag("--quick", options->quick, "The tiny model only, one round");
  add_output<bench::StepBenchOptions>(
      verb, status, options,
      {bench::run_step_bench, bench::print_step_bench, bench::step_bench_status},
      "Exit 1 when a ratio asked for is not met");
  verb->footer(
      "Examples:\n"
      "  shardproof bench step\n"
      "  shardproof bench step --quick --json");
}

// A bench that has rounds, and a quick form.
template <typename Options>
void add_rounds(CLI::App& bench, int& status, const char* name, const char* what,
                const Bench<Options>& functions, const char* quick = "A smaller model, one round") {
  auto options = std::make_shared<Options>();
  CLI::App* verb = bench.add_subcommand(name, what);
  verb->add_option("--rounds", options->rounds, "Turns of all that is measured; medians count")
      ->check(integer_range(1, 100))
      ->capture_default_str();
  verb->add_flag("--quick", options->quick, quick);
  add_output(verb, status, options, functions, "Exit 1 when a limit is not kept");
  verb->footer(fmt::format(
      "Examples:\n  shardproof bench {0}\n  shardproof bench {0} --quick --json", name));
}

void add_checkpoint_bench(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::CheckpointBenchOptions>();
  CLI::App* verb = bench.add_subcommand(
      "checkpoint", "Saves and loads against PyTorch's and against a bare write and fsync");
  verb->add_option("--megabytes", options->megabytes, "Of the state")
      ->check(integer_range(32, 16384))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "Turns of all sides; medians count")
      ->check(integer_range(1, 100))
      ->capture_default_str();
  verb->add_option("--directory", options->directory, "Where the files go (default: here)");
  verb->add_option("--python", options->python, "A Python with torch (ci/install --peers)");
  verb->add_flag("--quick", options->quick, "32 MB, one round");
  add_output<bench::CheckpointBenchOptions>(
      verb, status, options,
      {bench::run_checkpoint_bench, bench::print_checkpoint_bench, bench::checkpoint_bench_status},
      "Exit 1 when a figure asked for is not met");
  verb->footer(
      "Examples:\n"
      "  shardproof bench checkpoint --directory /data\n"
      "  shardproof bench checkpoint --quick --json");
}

void add_trace_bench(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::TraceBenchOptions>();
  CLI::App* verb = bench.add_subcommand(
      "trace", "Comparing captured tensors of two layouts against reading them; peak memory");
  verb->add_option("--megabytes", options->megabytes, "Of tensors in each layout")
      ->check(integer_range(16, 65536))
      ->capture_default_str();
  verb->add_option("--rounds", options->rounds, "Turns of all that is measured; medians count")
      ->check(integer_range(1, 100))
      ->capture_default_str();
  verb->add_flag("--quick", options->quick, "64 MB, one round");
  add_output<bench::TraceBenchOptions>(
      verb, status, options,
      {bench::run_trace_bench, bench::print_trace_bench, bench::trace_bench_status},
      "Exit 1 when a figure asked for is not met");
  verb->footer(
      "Examples:\n"
      "  shardproof bench trace\n"
      "  shardproof bench trace --quick --json\n"
      "Its files go to the system's folder for temporary ones (TMPDIR): twice --megabytes.");
}

void add_pipeline(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::PipelineBenchOptions>();
  CLI::App* verb =
      bench.add_subcommand("pipeline", "Idle time of a pipeline stage beside the formula");
  verb->add_option("--steps", options->steps, "Timed steps of each run")
      ->check(integer_range(1, 10000))
      ->capture_default_str();
  verb->add_flag("--quick", options->quick, "A tiny model");
  add_output<bench::PipelineBenchOptions>(
      verb, status, options, {bench::run_pipeline_bench, bench::print_pipeline_bench, nullptr}, "");
  verb->footer(
      "Examples:\n"
      "  shardproof bench pipeline\n"
      "  shardproof bench pipeline --quick --json");
}

void add_cases(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::CaseBenchOptions>();
  CLI::App* verb = bench.add_subcommand("cases", "Generated Cases that are proven in a second");
  verb->add_option("--seconds", options->seconds, "Of each kind of Case")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  add_output<bench::CaseBenchOptions>(
      verb, status, options,
      {bench::run_case_bench, bench::print_case_bench, bench::case_bench_status},
      "Exit 1 when a figure asked for is not met");
  verb->footer("Examples:\n  shardproof bench cases\n  shardproof bench cases --seconds 10 --json");
}

void add_crashes(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::CrashBenchOptions>();
  CLI::App* verb =
      bench.add_subcommand("crashes", "States after a crash of a save, judged in a second");
  verb->add_flag("--quick", options->quick, "A fraction of the states");
  add_output<bench::CrashBenchOptions>(
      verb, status, options,
      {bench::run_crash_bench, bench::print_crash_bench, bench::crash_bench_status},
      "Exit 1 when a figure asked for is not met");
  verb->footer("Examples:\n  shardproof bench crashes\n  shardproof bench crashes --quick --json");
}

void add_fault_bench(CLI::App& bench, int& status) {
  auto options = std::make_shared<bench::FaultBenchOptions>();
  CLI::App* verb =
      bench.add_subcommand("faults", "Fault scenarios fired, recovered and compared in a second");
  verb->add_flag("--quick", options->quick, "A fraction of the time");
  add_output<bench::FaultBenchOptions>(
      verb, status, options,
      {bench::run_fault_bench, bench::print_fault_bench, bench::fault_bench_status},
      "Exit 1 when a figure asked for is not met");
  verb->footer("Examples:\n  shardproof bench faults\n  shardproof bench faults --quick --json");
}

// One MPI rank of `bench comm`, which the launcher starts.
void add_comm_rank(CLI::App& bench, int& status) {
  auto quick = std::make_shared<bool>(false);
  CLI::App* verb = bench.add_subcommand("comm-rank", "A rank that bench comm started");
  verb->group("");  // hidden
  verb->add_flag("--quick", *quick);
  verb->callback([quick, &status] {
    const Environment environment = read_environment();
    const auto value = [&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? std::string() : found->second;
    };
    const auto started = started_as(environment);
    status = bench::comm_bench_rank({value("SHARDPROOF_CONTROL"), value("SHARDPROOF_CONTROL_TOKEN"),
                                     started ? started->rank : 0},
                                    *quick);
  });
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  CLI::App* bench = app.add_subcommand("bench", "Measure on this machine");
  bench->require_subcommand(1);
  bench->footer("Examples:\n  shardproof bench comm\n  shardproof bench step");
  add_comm(*bench, status);
  add_step(*bench, status);
  add_pipeline(*bench, status);
  add_rounds<bench::ReductionBenchOptions>(
      *bench, status, "reduction", "Canonical order against native sums",
      {bench::run_reduction_bench, bench::print_reduction_bench, bench::reduction_bench_status});
  add_rounds<bench::OverlapBenchOptions>(
      *bench, status, "overlap", "Communication that native data parallelism hides",
      {bench::run_overlap_bench, bench::print_overlap_bench, bench::overlap_bench_status});
  add_rounds<bench::OffloadBenchOptions>(
      *bench, status, "offload", "A step with its state in host memory and in files",
      {bench::run_offload_bench, bench::print_offload_bench, nullptr});
  add_rounds<bench::GuardBenchOptions>(
      *bench, status, "guards", "What guards cost a step; how soon a hang is named",
      {bench::run_guard_bench, bench::print_guard_bench, bench::guard_bench_status});
  add_rounds<bench::RecoveryBenchOptions>(
      *bench, status, "recovery", "How soon a death or hang is named; restarts, in parts",
      {bench::run_recovery_bench, bench::print_recovery_bench, bench::recovery_bench_status},
      "One round");
  add_cases(*bench, status);
  add_crashes(*bench, status);
  add_fault_bench(*bench, status);
  add_checkpoint_bench(*bench, status);
  add_trace_bench(*bench, status);
  add_comm_rank(*bench, status);
}

}  // namespace shardproof
