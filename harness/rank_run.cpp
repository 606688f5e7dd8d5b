// rank_run: one rank from its communicator to its last step.
#include "harness/rank_run.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/background_save.h"
#include "checkpoint/set_aside.h"
#include "comm/flight_dump.h"
#include "harness/child.h"
#include "harness/drill.h"
#include "harness/initial_parameters.h"
#include "harness/output_path.h"
#include "harness/parameter_agreement.h"
#include "harness/prepare.h"
#include "harness/rank_facts.h"
#include "harness/rank_faults.h"
#include "harness/rank_guards.h"
#include "harness/revokes_on_failure.h"
#include "mesh/layout.h"
#include "mesh/mesh.h"
#include "parallel/agreement.h"
#include "parallel/make_plan.h"
#include "train/memory_ledger.h"
#include "train/saver.h"
#include "train/sections.h"
#include "train/warm_start.h"

namespace shardproof {
namespace {

std::string metrics_path(const RunRequest& request, int rank) {
  if (!request.metrics_directory.empty()) {
    make_folder(request.metrics_directory);
    return fmt::format("{}/metrics.rank_{:05}.jsonl", request.metrics_directory, rank);
  }
  return rank == 0 ? request.metrics_file : "";
}

// What a failure or a trace is told with.
bool wants_records(const RunRequest& request) {
  const TraceOptions& trace = request.trace;
  return !trace.directory.empty() || trace.memory || !request.config.guard.dumps.empty();
}

// A deadline that is shorter than a step is no sign of a hang; a verdict is not about deadlines.
Error with_deadline(const Error& error, double seconds) {
  if (error.detail().starts_with("hang (")) return error;
  constexpr double short_deadline = 10;
  const std::string hint =
      seconds < short_deadline ? ", which a slow step may take; try a longer one" : "";
  return Error(error.kind(), error.place(),
               fmt::format("{} (run.deadline is {} s{})", error.detail(), seconds, hint),
               error.world_rank());
}

class RankRun {
 public:
  RankRun(const RunRequest& request, std::shared_ptr<const Dataset> dataset,
          std::unique_ptr<Communicator> backend, Hooks& hooks, const RankFaults* faults,
          Watchdog* watchdog, const Go* go)
      : request_(request),
        config_(request.config),
        go_(go),
        first_rank_(backend->group().world_ranks[static_cast<std::size_t>(backend->rank())]),
        guards_(config_, first_rank_, wants_records(request), watchdog),
        faults_(faults),
        comm_(wrap(std::move(backend), stack_options())),
        dataset_(std::move(dataset)),
        trace_(traced_with_fault(request), comm_->rank(), comm_->size()),
        metrics_(metrics_path(request, comm_->rank()), Clock::real(),
                 go != nullptr && go->number > 0),
        hooks_(guards_.recorder(), hooks) {}

  bool run() {
    at::set_num_threads(1);
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    MemoryLedger ledger;
    std::optional<MemoryLedger::Install> installed;
    const bool watch_memory = trace_.enabled() || wants_metrics(request_);
    if (watch_memory) installed.emplace(ledger);
    try {
      return train(watch_memory ? &ledger : nullptr);
    } catch (const Error& error) {
      dump_flight();
      if (error.kind() == ErrorKind::timeout) throw with_deadline(error, config_.run.deadline);
      throw;
    } catch (...) {
      dump_flight();
      throw;
    }
  }

 private:
  bool train(MemoryLedger* ledger) {
    const RevokesOnFailure revokes_splits(*comm_, go_ != nullptr);
    agree_on(*comm_, request_facts(request_));
    agree_on(*comm_, program_facts(*dataset_, comm_->size()));
    Mesh mesh(*comm_, parse_layout(config_.run.layout));
    const auto plan = make_plan(mesh, plan_options());
    done("start", 0);
    Loader loader(dataset_, loader_of(config_), plan->micro_batches());
    done("data", 0);
    const auto storage = open_storage();
    const auto checkpointer =
        storage ? make_checkpointer(*storage, *comm_, save_how(config_.checkpoint)) : nullptr;
    const auto audit = make_audit(mesh, *plan);
    Trainer trainer(
        {config_, *plan, loader, *dataset_, program(), trace_, metrics_, hooks_, checkpointer.get(),
         ledger, peak_flops(), request_.stop,
         [this](const std::string& text) { return all_gather_text(*comm_, text); }, audit.get(),
         [this](const std::string& what) { say(what); },
         [this, &mesh](std::int64_t step, const std::string& id) { rolled_back(mesh, step, id); }});
    const RevokesOnFailure revokes(*comm_, go_ != nullptr);
    if (go_ != nullptr && !go_->recovery.is_null()) trace_.event(go_->recovery);
    trace_.run(run_facts(mesh));
    if (request_.resume) {
      const Duration began = Clock::real().now();
      if (!go_on(trainer, storage.get())) return true;
      if (comm_->rank() == 0) tell_part(request_, "load", began);
    } else if (!config_.training.warm_start.empty()) {
      trainer.began_from(load_warm_start(config_.training.warm_start, *plan, *comm_));
    }
    done("load", trainer.next_step());
    hooks_.begin(*plan);
    if (!trainer.origin().empty()) {
      trace_.event(
          Json{{"kind", "origin"}, {"step", trainer.next_step()}, {"origin", trainer.origin()}});
    }
    agree_on(*comm_, {{"next step", std::to_string(trainer.next_step())}});
    const bool agreed = agree_on_parameters(mesh, *plan, config_.model.tied);
    if (!request_.resume && config_.training.warm_start.empty()) {
      check_initial_parameters(*comm_, *plan, shape_of(config_),
                               static_cast<std::uint64_t>(config_.training.seed), agreed);
    }
    if (audit) audit->carry();
    trainer.trace_start();
    trace_calls(trainer.next_step() - 1, "start");
    const bool complete = steps(trainer, checkpointer.get());
    if (trace_.enabled() && config_.guard.verify) {
      Json event{{"kind", "guard"}};
      event.update(guards_.counts());
      trace_.event(event);
    }
    if (complete) trace_.end(trainer.next_step());
    return complete;
  }

  // False: asked to stop meanwhile.
  bool go_on(Trainer& trainer, Storage* storage) {
    if (!request_.new_case_from.empty()) {
      const auto from = posix_storage(request_.new_case_from, false);
      trainer.begin_case(*make_checkpointer(*from, *comm_), *request_.resume);
      return true;
    }
    if (request_.fallback) set_aside(*storage);
    return trainer.resume(*request_.resume);
  }

  // False: it left behind a save.
  bool steps(Trainer& trainer, Checkpointer* checkpoints) {
    std::optional<Drill> drill;
    if (config_.checkpoint.drill_every > 0) {
      drill.emplace(config_, drill_options(), *comm_,
                    [](const std::string& text) { fmt::print(stderr, "shardproof: {}\n", text); });
    }
    std::optional<Saver> saver;
    if (checkpoints != nullptr) {
      saver.emplace(
          config_.checkpoint, trainer, *checkpoints, [&](const std::string& why) { warn(why); },
          drill ? &*drill : nullptr);
    }
    const RevokesOnFailure revokes(*comm_, go_ != nullptr);
    bool stop = false;
    bool leaves = false;
    while (trainer.next_step() < config_.training.steps && !stop && !leaves) {
      const StepResult result = trainer.step();
      trace_calls(result.step, "step");
      done("step", result.step);
      if (comm_->rank() == 0 && request_.on_step) request_.on_step(result, metrics_.last());
      stop = result.stop;
      if (drill) drill->after_step(result, [&] { return trainer.state_digest(); });
      if (saver) saver->after_step();
      leaves = saver && go_ != nullptr && go_->leaves_after_save && !stop &&
               trainer.next_step() < config_.training.steps && saver->settle();
      trace_calls(trainer.next_step() - 1, "save");
    }
    if (saver && !leaves) saver->finish();
    if (drill) drill->finish(stop || leaves);
    if (leaves) return false;
    if (request_.on_state) {
      const Digest state = trainer.state_digest();
      if (comm_->rank() == 0) request_.on_state(state);
    }
    trace_calls(trainer.next_step() - 1, "save");
    return true;
  }

  void done(const char* part, std::int64_t step) const {
    if (go_ != nullptr && go_->done) go_->done(part, step);
  }

  DrillOptions drill_options() const {
    constexpr int patience = 10;  // a drill starts a process, reads all and trains: not one wait
    DrillOptions options;
    options.every = config_.checkpoint.drill_every;
    options.program = request_.program.empty() ? own_executable() : request_.program;
    options.deadline = patience * wait_limit(config_);
    return options;
  }

  std::unique_ptr<Audit> make_audit(Mesh& mesh, Plan& plan) {
    if (config_.guard.audit_every == 0) return nullptr;
    return std::make_unique<Audit>(
        AuditParts{config_, mesh, plan, dataset_,
                   [this](std::int64_t step, const char* part) { trace_calls(step, part); }});
  }

  // Steps from the checkpoint on are recorded once more: a run of its own in the trace.
  void rolled_back(const Mesh& mesh, std::int64_t step, const std::string& id) {
    if (!trace_.enabled()) return;
    trace_.event(Json{{"kind", "rollback"}, {"step", step}, {"checkpoint", id}});
    Json facts = run_facts(mesh);
    facts["resumed"] = id;
    trace_.run(facts);
  }

  void say(const std::string& what) const {
    if (comm_->rank() == 0) fmt::print(stderr, "shardproof: {}\n", what);
  }

  PlanOptions plan_options() const {
    PlanOptions options = plan_of(config_);
    OffloadOptions& offload = options.offload;
    const bool to_file =
        offload.optimizer == OffloadTo::file || offload.parameters == OffloadTo::file;
    if (!to_file || !offload.directory.empty()) return options;
    std::error_code code;
    offload.directory = std::filesystem::temp_directory_path(code).string();
    if (!code) return options;
    throw Error(ErrorKind::environment, "TMPDIR",
                code.message() + "; expected a folder, or parallel.offload_directory",
                comm_->rank());
  }

  // After every rank has read the folder as it was.
  void set_aside(Storage& storage) {
    agreed(*comm_, [&] {
      if (comm_->rank() != 0) return std::string();
      for (const std::string& id : set_aside_damaged(storage, *request_.resume)) {
        fmt::print(stderr, "shardproof: damaged checkpoint {} was set aside\n", id);
      }
      return std::string();
    });
  }

  void warn(const std::string& why) const {
    if (comm_->rank() == 0) fmt::print(stderr, "shardproof: nothing was pruned: {}\n", why);
  }

  StackOptions stack_options() const {
    StackOptions options{nullptr, request_.delay};
    guards_.put_into(options);
    options.checked = config_.guard.audit_every > 0;
    if (faults_ != nullptr) {
      options.outer = [this](auto comm) { return faults_->outer(std::move(comm)); };
      options.wire = [this](auto comm) { return faults_->wire(std::move(comm)); };
    }
    return options;
  }

  std::shared_ptr<Storage> open_storage() const {
    auto storage = plain_storage();
    return faults_ != nullptr && storage ? faults_->storage(std::move(storage)) : storage;
  }

  std::shared_ptr<Storage> plain_storage() const {
    if (request_.storage) return request_.storage;
    if (config_.checkpoint.directory.empty()) return nullptr;
    const bool fresh = !request_.resume || !request_.new_case_from.empty();
    return posix_storage(config_.checkpoint.directory, fresh);
  }

  // All ranks measure at once, so that the sum is what the machine gives to all of them together.
  double peak_flops() {
    if (!wants_metrics(request_)) return 0;
    barrier(*comm_);
    double sum = 0;
    for (const auto& text : all_gather_text(*comm_, bits_hex(measure_peak_flops()))) {
      sum += from_bits_hex(text);
    }
    return sum;
  }

  Json data_facts() const {
    Json facts{{"size", dataset_->size()}};
    for (const Source& source : dataset_->sources()) {
      facts["sources"].push_back({{"name", source.name},
                                  {"first", source.first},
                                  {"size", source.size},
                                  {"weight", source.weight}});
    }
    return facts;
  }

  Json run_facts(const Mesh& mesh) const {
    Json coords = Json::object();
    for (int i = 0; i < axis_count; ++i) {
      const auto axis = static_cast<Axis>(i);
      coords[std::string(short_name(axis))] = mesh.at().at(axis);
    }
    return Json{{"coords", coords},
                {"code", program().code},
                {"versions", program().versions},
                {"kernels", program().kernels},
                {"config_digest", config_digest(config_)},
                {"config", to_json(config_)},
                {"layout", mesh.layout().print()},
                {"backend", config_.run.backend},
                {"seeds", Json{{"training", config_.training.seed}}},
                {"data", data_facts()},
                {"data_digest", dataset_->digest().hex()},
                {"tokenizer", dataset_->tokenizer()},
                {"tokenizer_digest", dataset_->tokenizer_digest().hex()},
                {"tensors", request_.trace.all_tensors() ? "all" : "some"},
                {"match", request_.trace.match},
                {"resumed", request_.resume ? Json(*request_.resume) : Json(nullptr)}};
  }

  void trace_calls(std::int64_t step, const char* part) {
    if (!trace_.enabled()) return;
    const auto counts = guards_.recorder()->take_counts();
    const std::string background = fmt::format("{}/{}", comm_->group().name, background_group);
    for (const auto& [key, count] : counts) {
      const auto& [group, kind, dtype] = key;
      trace_.event(Json{{"kind", "comm"},
                        {"step", step},
                        {"part", group.starts_with(background) ? "background" : part},
                        {"group", group},
                        {"op", std::string(name(kind))},
                        {"dtype", std::string(name(dtype))},
                        {"count", count.elements},
                        {"n", count.calls}});
    }
  }

  // What this rank did last, for `shardproof hang`. The failure itself is worth more than its dump.
  void dump_flight() const {
    constexpr std::size_t every_operation = 1024;  // as many as the recorder keeps
    const std::string& folder =
        config_.guard.dumps.empty() ? request_.trace.directory : config_.guard.dumps;
    if (folder.empty()) return;
    try {
      make_folder(folder);
    } catch (const Error&) {
      return;
    }
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    std::ofstream(folder + "/" + flight_dump_name(first_rank_), std::ios::binary)
        << flight_dump_file(guards_.recorder()->records(every_operation),
                            std::chrono::duration_cast<Duration>(wall).count());
  }

  const RunRequest& request_;
  const Config& config_;
  const Go* const go_;    // null: not elastic
  const int first_rank_;  // in the world in which the job began
  const RankGuards guards_;
  const RankFaults* const faults_;
  const std::unique_ptr<Communicator> comm_;
  const std::shared_ptr<const Dataset> dataset_;
  TraceWriter trace_;
  Metrics metrics_;
  PlaceHooks hooks_;
};

}  // namespace

bool run_rank(const RunRequest& request, std::shared_ptr<const Dataset> dataset,
              std::unique_ptr<Communicator> backend, Hooks& hooks, const RankFaults* faults,
              Watchdog* watchdog, const Go* go) {
  return RankRun(request, std::move(dataset), std::move(backend), hooks, faults, watchdog, go)
      .run();
}

}  // namespace shardproof
