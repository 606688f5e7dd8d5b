// train: the verbs `train`, `resume` and the hidden `rank` (a rank that the launcher started).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "checkpoint/load.h"
#include "checkpoint/weights_file.h"
#include "harness/checkpoint_folder.h"
#include "harness/cli/cli.h"
#include "harness/cli/environment.h"
#include "harness/cli/option_values.h"
#include "harness/cli/stop_signal.h"
#include "harness/mpirun_command.h"
#include "harness/newest_whole.h"
#include "harness/output_path.h"
#include "harness/prepare.h"
#include "harness/progress.h"
#include "harness/say.h"
#include "harness/supervisor.h"
#include "harness/world.h"
#include "mesh/layout.h"
#include "train/manifest_facts.h"

namespace shardproof {
namespace {

struct TrainOptions {
  std::string config_file;
  std::vector<std::string> set;
  std::string layout;
  std::string backend;
  std::string checkpoint;
  std::string checkpoint_id;
  std::string trace;
  std::optional<std::string> trace_tensors;
  std::optional<std::string> trace_match;
  std::optional<bool> trace_digest;
  std::string metrics;
  std::string hostfile;
  int steps = 0;
  int drill = 0;
  std::string warm_start;
  bool fallback = false;
  bool new_case = false;
  std::string new_checkpoint;  // of a new Case
  bool print_config = false;
};

void add_common(CLI::App& verb, TrainOptions& options) {
  verb.add_option("--layout", options.layout, "dp4.zero1, or dp=4,zero=1")->check(not_empty());
  verb.add_option("--set", options.set, "Set any key of the config: training.steps=10")
      ->type_name("KEY=VALUE");
  verb.add_option("--steps", options.steps, "Optimizer steps in all (training.steps)")
      ->check(integer_range(1));
  verb.add_option("--drill", options.drill,
                  "Every n-th checkpoint is verified and continued on another layout by another "
                  "process meanwhile (checkpoint.drill_every)")
      ->type_name("N")
      ->check(integer_range(1));
  verb.add_option("--backend", options.backend, "threads (of this process) or mpi (processes)")
      ->check(not_empty());
  verb.add_option("--hostfile", options.hostfile,
                  "Of mpirun, with --backend mpi: NODE slots=N lines")
      ->check(not_empty());
  verb.add_option("--trace", options.trace, "Write the public trace of the run into this folder")
      ->check(not_empty());
  verb.add_option("--trace-tensors", options.trace_tensors,
                  "Also write the tensors of these steps: 0,1,4 (-1: the initial values), or all")
      ->type_name("STEPS");
  verb.add_option("--trace-match", options.trace_match, "Trace only tensors whose name matches")
      ->type_name("REGEX");
  verb.add_flag_function(
      "--trace-digest,!--no-trace-digest",
      [&options](std::int64_t count) { options.trace_digest = count > 0; },
      "Trace digests of every tensor at every step (on with --trace)");
  verb.add_option("--metrics", options.metrics, "Write one JSON line a step into this file")
      ->check(not_empty());
  verb.add_flag("--print-config", options.print_config, "Print the resolved config and end");
}

// The config that was typed, checked: an Error names the file and line, or the option.
void apply(const TrainOptions& options, Config& config, Origins origins) {
  for (const std::string& assignment : options.set) set_key(config, assignment, &origins);
  if (!options.layout.empty()) {
    config.run.layout = parse_layout(options.layout).print();
    origins["run.layout"] = "--layout " + options.layout;
  }
  if (!options.backend.empty()) {
    config.run.backend = options.backend;
    origins["run.backend"] = "--backend " + options.backend;
  }
  if (options.steps > 0) {
    config.training.steps = options.steps;
    origins["training.steps"] = fmt::format("--steps {}", options.steps);
  }
  if (options.drill > 0) {
    config.checkpoint.drill_every = options.drill;
    origins["checkpoint.drill_every"] = fmt::format("--drill {}", options.drill);
  }
  if (!options.checkpoint.empty()) config.checkpoint.directory = options.checkpoint;
  if (!options.warm_start.empty()) config.training.warm_start = options.warm_start;
  check(config, origins);
}

// What was typed for this run goes before the environment.
TraceOptions trace_options(const TrainOptions& options, const Environment& environment) {
  TraceOptions trace = TraceOptions::from_environment(environment);
  if (!options.trace.empty()) {
    trace.directory = options.trace;
    trace.digest = true;
  }
  if (options.trace_tensors) trace.set_capture(*options.trace_tensors, "--trace-tensors");
  if (options.trace_match) trace.set_match(*options.trace_match, "--trace-match");
  if (options.trace_digest) trace.digest = *options.trace_digest;
  const bool any = options.trace_tensors || options.trace_match || options.trace_digest;
  if (any && trace.directory.empty()) {
    throw Error(ErrorKind::bad_input, "--trace-tensors, --trace-match, --trace-digest",
                "need a folder for the trace; expected --trace DIR");
  }
  return trace;
}

std::string trace_file(const std::string& directory, int rank) {
  return fmt::format("{}/rank_{:05}.jsonl", directory, rank);
}

void refuse_used_folder(const std::string& directory, int rank) {
  const std::string file = trace_file(directory, rank);
  std::error_code ignored;
  if (directory.empty() || !std::filesystem::exists(file, ignored)) return;
  throw Error(ErrorKind::conflict, file, "holds a trace already; expected a fresh folder");
}

// The resolved config in the trace folder, which it takes for this run: of two runs at once the
// second is refused. Gone again when the run ends before it has traced anything.
class SavedConfig {
 public:
  explicit SavedConfig(const RunRequest& request) : directory_(request.trace.directory) {
    if (directory_.empty()) return;
    make_folder(directory_);
    const int fd = ::open(path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) {
      throw Error(ErrorKind::conflict, path(), "exists already; expected a fresh folder");
    }
    if (fd < 0) throw Error(ErrorKind::io, "create " + path(), std::strerror(errno));
    ::close(fd);
    std::ofstream file(path());
    file << to_toml(request.config) << std::flush;
    if (!file) throw Error(ErrorKind::io, "write " + path(), "the resolved config");
  }
  ~SavedConfig() {
    std::error_code ignored;
    if (directory_.empty() || std::filesystem::exists(trace_file(directory_, 0), ignored)) return;
    std::filesystem::remove(path(), ignored);
  }
  SavedConfig(const SavedConfig&) = delete;
  SavedConfig& operator=(const SavedConfig&) = delete;

 private:
  std::string path() const { return directory_ + "/config.toml"; }
  std::string directory_;
};

// Everything that was named for results, before anything is trained.
void prepare_outputs(const RunRequest& request) {
  if (!request.metrics_file.empty()) check_new_file(request.metrics_file);
  for (int n = 1; n <= request.config.run.restarts; ++n) {
    refuse_used_folder(path_of_restart(request.trace.directory, n), 0);
    const std::string metrics = path_of_restart(request.metrics_file, n);
    if (!metrics.empty()) check_new_file(metrics);
  }
  if (!request.resume) refuse_other_run(request.config);
  if (!request.new_case_from.empty()) refuse_any_run(request.config.checkpoint.directory);
  const std::string& checkpoints = request.config.checkpoint.directory;
  if (!checkpoints.empty()) make_folder(checkpoints);
}

void check_hosts(const RunRequest& request, bool started) {
  if (request.hostfile.empty()) return;
  if (started || request.config.run.backend != "mpi") {
    throw Error(ErrorKind::bad_input, "--hostfile " + request.hostfile,
                "is for ranks that this command starts as processes; expected --backend mpi, and "
                "no mpirun or srun around it");
  }
  check_hostfile(request.hostfile);
}

// False: asked to stop.
bool run_as_started(RunRequest& request) {
  const StopSignal stop;
  request.stop = &stop.flag();
  run_as_mpi_rank(request);
  return !stop.flag();
}

// The same; with ranks of this command's own making.
bool run_here(RunRequest& request, Progress* progress) {
  std::optional<StopSignal> stop;
  // A launcher has its own way with Ctrl-C; between two launches somebody else must listen.
  if (request.config.run.backend != "mpi" || request.config.run.restarts > 0) stop.emplace();
  if (stop) request.stop = &stop->flag();
  Supervision supervision;
  supervision.say = [progress](const std::string& line) {
    if (progress != nullptr) progress->finish();
    fmt::print(stderr, "shardproof: {}\n", line);
  };
  return supervise(request, supervision);
}

// Runs the request; the exit code: 0, or 130 when it was asked to stop.
int run_request(RunRequest request, const Environment& environment, bool print_config) {
  const auto started = started_as(environment);
  if (started) request.config.run.backend = "mpi";
  check(request.config);
  if (print_config) {
    fmt::print("{}", to_toml(request.config));
    return 0;
  }
  check_hosts(request, started.has_value());
  if (started) refuse_restarts(request.config, "a rank that mpirun or srun started");
  request.config = usable_anywhere(request.config);
  const bool first = !started || started->rank == 0;
  refuse_used_folder(request.trace.directory, started ? started->rank : 0);
  std::optional<SavedConfig> saved;
  std::unique_ptr<Progress> progress;
  if (first) {
    prepare_outputs(request);
    saved.emplace(request);
    say(to_toml(request.config) + "\n");
    // Under mpirun stdout is a terminal of its making, whatever that of the user is.
    const bool terminal = !has_starter(environment) && ::isatty(STDOUT_FILENO) != 0;
    progress = std::make_unique<Progress>(stdout, terminal, request.config.training.steps);
    request.on_step = [&](const StepResult& result, const StepMetrics& metrics) {
      progress->step(result, metrics);
    };
  }
  const bool complete = started ? run_as_started(request) : run_here(request, progress.get());
  if (progress) progress->finish();
  return complete ? 0 : 130;
}

Config resolve(const TrainOptions& options) {
  Config config;
  Origins origins;
  if (!options.config_file.empty()) config = load_config(options.config_file, &origins);
  apply(options, config, std::move(origins));
  return config;
}

int train(const TrainOptions& options) {
  const Environment environment = read_environment();
  RunRequest request;
  request.config = resolve(options);
  request.trace = trace_options(options, environment);
  request.metrics_file = options.metrics;
  request.hostfile = options.hostfile;
  return run_request(std::move(request), environment, options.print_config);
}

std::string checkpoint_to_resume(Storage& storage, const TrainOptions& options) {
  if (!options.checkpoint_id.empty()) return options.checkpoint_id;
  const auto ids = list_checkpoints(storage);
  if (ids.empty()) {
    throw Error(ErrorKind::bad_input, options.checkpoint, "no checkpoint; expected at least one");
  }
  if (!options.fallback) return ids.back();
  const std::string id = newest_whole(storage, [](const std::string& id, const Damage& damage) {
    say(text(id, damage) + "; trying the one before\n");
  });
  if (!id.empty()) return id;
  throw Error(ErrorKind::corrupt, options.checkpoint,
              fmt::format("none of its {} checkpoints is whole", ids.size()));
}

void refuse_weights_alone(const Manifest& manifest, const std::string& directory) {
  if (!weights_alone(manifest)) return;
  throw Error(ErrorKind::refused, directory + ": checkpoint " + manifest.id,
              fmt::format("holds weights alone, no training state; to begin a run with them: "
                          "shardproof train --warm-start {}/{}",
                          directory, manifest.id));
}

// The config of a resumed run is the one its checkpoint carries.
int resume(const TrainOptions& options) {
  const Environment environment = read_environment();
  if (options.new_case == options.new_checkpoint.empty()) {
    throw Error(ErrorKind::bad_input, "--new-case",
                "a folder takes the checkpoints of one Case; expected --new-case and --checkpoint "
                "DIR, another folder, together");
  }
  const auto storage = posix_storage(options.checkpoint, false);
  const std::string id = checkpoint_to_resume(*storage, options);
  const Manifest manifest = read_manifest(*storage, id);
  refuse_weights_alone(manifest, options.checkpoint);
  require_consistent(contradictions(manifest), options.checkpoint + ": checkpoint " + id);
  RunRequest request;
  request.config = parse_config_json(manifest.facts.config.dump(), "config of checkpoint " + id);
  apply(options, request.config, {});
  if (manifest.facts.step >= request.config.training.steps) {
    throw Error(ErrorKind::bad_input, "training.steps",
                fmt::format("checkpoint {} is at step {} of {}; expected more steps, such as "
                            "--steps {}",
                            id, manifest.facts.step, request.config.training.steps,
                            manifest.facts.step + request.config.training.steps));
  }
  request.resume = id;
  request.fallback = options.fallback;
  if (options.new_case) {
    request.new_case_from = options.checkpoint;
    request.config.checkpoint.directory = options.new_checkpoint;
  }
  request.trace = trace_options(options, environment);
  request.metrics_file = options.metrics;
  request.hostfile = options.hostfile;
  return run_request(std::move(request), environment, options.print_config);
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = app.add_subcommand("train", "Train a GPT on any legal layout");
  verb->add_option("CONFIG", options->config_file, "TOML, or JSON with the same keys");
  verb->add_option("--checkpoint", options->checkpoint, "Save checkpoints into this folder")
      ->check(not_empty());
  verb->add_option("--warm-start", options->warm_start,
                   "Begin with the weights of a checkpoint, and nothing else of it")
      ->type_name("DIR[/ID]")
      ->check(not_empty());
  add_common(*verb, *options);
  verb->footer(
      "Examples:\n"
      "  shardproof train\n"
      "  shardproof train --warm-start ckpt/step-00000010\n"
      "  shardproof train my.toml --layout dp2.zero1 --steps 100\n"
      "  shardproof train --set data.kind=text --set data.path=book.txt --set "
      "model.vocabulary=256\n"
      "  shardproof train --trace out --trace-tensors all && shardproof trace check out\n"
      "  shardproof train --backend mpi --checkpoint ckpt --set checkpoint.every=10\n"
      "  mpirun -n 4 shardproof train --layout dp4.zero1\n"
      "Ctrl-C, SIGTERM or a closed terminal end the run after the current step with exit code "
      "130.");
  verb->callback([options, &status] { status = train(*options); });
}

void add_resume(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb =
      app.add_subcommand("resume", "Continue a run from its checkpoint, on any legal layout");
  verb->add_option("DIR", options->checkpoint, "Folder of checkpoints")->required();
  verb->add_option("ID", options->checkpoint_id, "Checkpoint; the newest by default");
  verb->add_flag("--fallback", options->fallback,
                 "Where the newest checkpoint is damaged, take the one before, and say so");
  verb->add_flag(
      "--new-case", options->new_case,
      "Begin a new Case with the whole state: other logical pieces, reduction or kernels");
  verb->add_option("--checkpoint", options->new_checkpoint, "Of the new Case: another folder")
      ->check(not_empty());
  add_common(*verb, *options);
  verb->footer(
      "Examples:\n"
      "  shardproof resume ckpt\n"
      "  shardproof resume ckpt --new-case --checkpoint other --set numerics.tensor_pieces=4\n"
      "  shardproof resume ckpt --fallback\n"
      "  shardproof resume ckpt --steps 200\n"
      "  shardproof resume ckpt --layout dp2.tp2.zero3 --backend mpi\n"
      "  shardproof resume ckpt step-00000010 --trace out");
  verb->callback([options, &status] { status = resume(*options); });
}

void add_rank(CLI::App& app, int& status) {
  auto file = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("rank", "A rank that the launcher started");
  verb->group("");  // hidden
  verb->add_option("REQUEST", *file)->required();
  verb->callback([file, &status] {
    const Environment environment = read_environment();
    const auto value = [&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? std::string() : found->second;
    };
    const auto started = started_as(environment);
    status = rank_main(*file, value("SHARDPROOF_CONTROL"), value("SHARDPROOF_CONTROL_TOKEN"),
                       started ? started->rank : 0);
  });
}

}  // namespace shardproof
