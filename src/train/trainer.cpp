// trainer: the step.
#include "train/trainer.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "optim/grad_clip.h"
#include "optim/schedule.h"
#include "train/recomputation.h"
#include "train/sections.h"
#include "train/state_trace.h"

namespace shardproof {
namespace {

std::int64_t valid_tokens(const std::vector<MicroBatch>& batches) {
  std::int64_t sum = 0;
  for (const MicroBatch& batch : batches) sum += batch.valid_tokens();
  return sum;
}

std::vector<std::int64_t> sample_ids(const std::vector<MicroBatch>& batches) {
  std::vector<std::int64_t> ids;
  for (const MicroBatch& batch : batches) {
    for (const std::int64_t id : batch.sample_ids) {
      if (id >= 0) ids.push_back(id);  // a row that fills up a short batch is no sample
    }
  }
  return ids;
}

Error cannot_go_on(std::int64_t step, const std::string& why) {
  return Error(ErrorKind::numeric, fmt::format("step {}", step), why);
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(parts),
      executor_(shape_of(parts.config), parts.plan),
      guard_(parts.config.guard, parts.gather),
      offload_(parts.plan.offload()) {}

StepResult Trainer::step() {
  while (true) {
    if (const auto done = attempt()) return *done;
  }
}

std::optional<StepResult> Trainer::attempt() {
  Plan& plan = parts_.plan;
  Metrics& metrics = parts_.metrics;
  const TrainingSection& training = parts_.config.training;
  const auto timed = [&metrics](Part part, const auto& body) {
    const Metrics::Scope scope(metrics, part);
    return body();
  };
  metrics.begin_step(step_);
  bytes_sent_ = plan.bytes_sent();
  plan.begin_step(step_);
  const std::vector<std::int64_t> given = given_by_source();
  const DataCursor cursor = parts_.audit != nullptr ? parts_.loader.cursor() : DataCursor{};
  if (parts_.audit != nullptr) parts_.audit->begin_step(step_);
  const auto batches = timed(Part::data, [&] { return parts_.loader.next(); });
  metrics.current().sources = taken_since(given);

  // Token count first: every loss is a sum, and the one division comes after the global sums.
  const std::int64_t tokens =
      timed(Part::communication, [&] { return plan.sum_tokens(valid_tokens(batches)); });
  if (tokens == 0)
    throw cannot_go_on(step_, "no valid token in the whole global batch; expected 1");
  const double seed = static_cast<float>(1.0 / static_cast<double>(tokens));

  enter(step_, Phase::forward);
  const auto losses = executor_.run(batches, seed, metrics, [&] { enter(step_, Phase::backward); });

  audit_pieces(cursor, seed, losses);

  enter(step_, Phase::reduced);
  const StepShare mine{losses, memory_bytes(), parts_.stop != nullptr && parts_.stop->load()};
  const StepTotals totals = timed(Part::communication, [&] { return plan.reduce(mine); });
  const double loss = totals.loss_sum / static_cast<double>(tokens);
  guard_.check(step_, loss, totals.grad_norm, plan, losses);
  if (spikes(loss)) return std::nullopt;
  if (parts_.audit != nullptr) parts_.audit->reduced(step_);
  // Once, where a step is done again: its gradients are the same.
  if (std::exchange(traced_gradients_, step_) != step_) {
    trace_state(parts_.trace, plan, step_, "grad");
  }

  enter(step_, Phase::clipped);
  const double scheduled = learning_rate(schedule_of(parts_.config), step_);
  const AdamWStep at{parts_.hooks.learning_rate(step_, scheduled),
                     clip_factor(totals.grad_norm, training.clip), step_};

  enter(step_, Phase::optimizer);
  const StepResult result{step_, loss, totals.grad_norm, at.lr, tokens, totals.stop};
  if (!audit_update(result, at.clip_factor, cursor)) return std::nullopt;
  timed(Part::optimizer,
        [&] { plan.update(adamw_of(parts_.config), at, parts_.config.optimizer.no_decay); });
  timed(Part::communication, [&] { plan.gather_parameters(); });
  if (parts_.audit != nullptr) parts_.audit->updated(step_);

  guard_.spikes().add(step_, loss);
  record(result, at.clip_factor, batches, totals);
  ++step_;
  return result;
}

// How many samples each source of a mixture has given so far.
std::vector<std::int64_t> Trainer::given_by_source() const {
  std::vector<std::int64_t> given;
  if (parts_.config.data.sources.empty()) return given;
  for (const SourceCursor& at : parts_.loader.cursor().sources) {
    given.push_back(at.epoch * at.size + at.taken);
  }
  return given;
}

// Which source gives a sample is a function of its place: no rank need ask another.
std::vector<SourceMetrics> Trainer::taken_since(const std::vector<std::int64_t>& given) const {
  std::vector<SourceMetrics> taken;
  const std::vector<std::int64_t> now = given_by_source();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::int64_t samples = now[i] - given[i];
    taken.push_back(
        {parts_.config.data.sources[i].name, samples, samples * parts_.config.model.sequence});
  }
  return taken;
}

// What computing a piece again sends and waits for is not the step's. Gradients that are being
// reduced meanwhile are.
void Trainer::audit_pieces(const DataCursor& cursor, double seed,
                           std::span<const LossLeaf> losses) {
  if (parts_.audit == nullptr) return;
  parts_.plan.end_passes();
  const std::uint64_t sent = parts_.plan.bytes_sent_in_passes();
  const Duration idle = parts_.plan.pipeline_idle();
  parts_.audit->after_backward(step_, executor_, cursor, seed, losses);
  parts_.plan.end_passes();
  bytes_sent_ += parts_.plan.bytes_sent_in_passes() - sent;
  pipeline_idle_ += parts_.plan.pipeline_idle() - idle;
}

bool Trainer::audit_update(const StepResult& result, double clip_factor, const DataCursor& cursor) {
  if (parts_.audit == nullptr) return true;
  if (parts_.audit->before_update(step_, {result.loss, result.grad_norm, result.lr, clip_factor})) {
    return true;
  }
  say(fmt::format(
      "step {}: ranks have other numbers of the step; nothing is updated with them yet: "
      "the step is done again",
      step_));
  parts_.loader.seek(cursor, Remix::allow);
  return false;
}

bool Trainer::spikes(double loss) {
  const SpikeRuling ruling = guard_.spikes().look(step_, loss);
  if (ruling == SpikeRuling::none) return false;
  if (ruling == SpikeRuling::accept) {
    say(fmt::format(
        "step {}: loss {} again after the rollback: it comes from the data, and the run "
        "goes on with it",
        step_, loss));
    return false;
  }
  if (ruling == SpikeRuling::give_up) {
    throw cannot_go_on(step_, fmt::format("another loss that leaps out, {}, after {} rollbacks",
                                          loss, SpikeWatch::rollbacks));
  }
  roll_back(loss);
  return true;
}

// A checkpoint of this very step holds the state that spiked: it goes out of the way.
void Trainer::roll_back(double loss) {
  const std::string what = fmt::format(
      "loss {} is over {} times {}, the median of {} steps before (guard.spike_factor)", loss,
      parts_.config.guard.spike_factor, guard_.spikes().median(), guard_.spikes().seen());
  const std::int64_t spiked = step_;
  std::string id;
  if (parts_.checkpoints != nullptr) {
    saved_in_background(true);
    id = parts_.checkpoints->set_aside_from(spiked);
  }
  if (id.empty()) {
    throw cannot_go_on(spiked, what + "; there is no checkpoint of an earlier step to go back to");
  }
  resume(id);
  traced_gradients_ = -1;
  guard_.spikes().forget_from(step_);
  if (parts_.audit != nullptr) parts_.audit->carry();
  say(fmt::format("step {}: {}: rolled back to checkpoint {}", spiked, what, id));
  if (parts_.rolled_back) parts_.rolled_back(spiked, id);
}

void Trainer::enter(std::int64_t step, Phase phase) {
  parts_.hooks.entering(step, phase);
  parts_.trace.at(step, phase);
  parts_.hooks.phase(step, phase, parts_.plan);
}

void Trainer::record(const StepResult& result, double clip_factor,
                     const std::vector<MicroBatch>& batches, const StepTotals& totals) {
  const std::uint64_t sent = parts_.plan.bytes_sent() - bytes_sent_;
  const OffloadLedger moved = parts_.plan.offload();
  const OffloadLedger offload = moved.since(std::exchange(offload_, moved));
  if (parts_.trace.enabled()) {
    // First: tracing state views what is offloaded.
    trace_memory(parts_.trace, parts_.plan, parts_.memory, offload, step_);
    trace_state(parts_.trace, parts_.plan, step_, "param");
    trace_state(parts_.trace, parts_.plan, step_, "moment");
    StepRecord line;
    line.step = step_;
    line.loss = result.loss;
    line.grad_norm = result.grad_norm;
    line.lr = result.lr;
    line.tokens = valid_tokens(batches);
    line.samples = sample_ids(batches);
    line.extra["clip_factor"] = clip_factor;
    line.extra["clip_factor_bits"] = bits_hex(clip_factor);
    line.extra["tokens_global"] = result.tokens;
    line.extra["bytes_sent"] = sent;
    parts_.trace.step(line);
  }
  StepMetrics& metrics = parts_.metrics.current();
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  metrics.lr = result.lr;
  const std::int64_t positions =
      std::int64_t{parts_.config.training.global_batch} * parts_.config.model.sequence;
  metrics.tokens = positions;
  metrics.flops = flops_per_token(shape_of(parts_.config)) * static_cast<double>(positions);
  metrics.peak_flops = parts_.peak_flops;
  metrics.bytes_sent = sent;
  metrics.offload = offload;
  const Duration idle = parts_.plan.pipeline_idle();
  metrics.pipeline_idle =
      std::chrono::duration<double>(idle - std::exchange(pipeline_idle_, idle)).count();
  metrics.memory_max = totals.memory_max;
  metrics.memory_mean = totals.memory_mean;
  parts_.metrics.end_step();
  if (parts_.memory != nullptr) parts_.memory->reset_peak();
}

std::int64_t Trainer::memory_bytes() const {
  if (parts_.memory != nullptr) return parts_.memory->peak_total();
  const PlanBytes bytes = parts_.plan.bytes();
  return bytes.parameters + bytes.gradients + bytes.optimizer + bytes.communication;
}

void Trainer::trace_start() {
  trace_state(parts_.trace, parts_.plan, step_ - 1, "param");
  if (step_ > 0) trace_state(parts_.trace, parts_.plan, step_ - 1, "moment");
}

std::string Trainer::save() {
  saved_in_background(true);
  begin_save();
  const Metrics::Scope scope(parts_.metrics, Part::checkpoint);
  const std::string id = parts_.checkpoints->save(parts_.plan, facts());
  end_save();
  return id;
}

void Trainer::save_in_background() {
  saved_in_background(true);
  begin_save();
  const Metrics::Scope scope(parts_.metrics, Part::checkpoint);
  parts_.checkpoints->save_in_background(parts_.plan, facts());
}

bool Trainer::saved_in_background(bool wait) {
  const Metrics::Scope scope(parts_.metrics, Part::checkpoint);
  if (parts_.checkpoints->ended(wait).empty()) return false;
  end_save();
  return true;
}

void Trainer::begin_save() {
  enter(step_ - 1, Phase::save);
  if (parts_.audit != nullptr) parts_.audit->before_save(step_ - 1);
  saving_ = step_;
  parts_.trace.checkpoint(saving_, checkpoint_path(), false);
}

void Trainer::end_save() {
  parts_.trace.checkpoint(saving_, checkpoint_path(), true);
}

std::string Trainer::checkpoint_path() const {
  return parts_.config.checkpoint.directory + "/" + step_id(saving_);
}

bool Trainer::resume(const std::string& id) {
  const Loaded loaded = parts_.checkpoints->load(parts_.plan, id, expected());
  if (loaded.recompute && !recompute(loaded)) return false;
  go_on_from(loaded.facts);
  return true;
}

void Trainer::begin_case(Checkpointer& from, const std::string& id) {
  go_on_from(from.load_new_case(parts_.plan, id, expected()).facts);
}

CheckpointFacts Trainer::expected() const {
  CheckpointFacts expected = facts();
  expected.config = to_json(parts_.config);  // with its data.remix
  return expected;
}

void Trainer::go_on_from(const CheckpointFacts& found) {
  parts_.loader.seek(DataCursor::from_json(found.cursor, "checkpoint cursor"),
                     parts_.config.data.remix ? Remix::allow : Remix::refuse);
  step_ = found.step;
  origin_ = found.origin;
}

// Another trainer of the same parts walks there, unseen: in no trace and no metrics.
bool Trainer::recompute(const Loaded& to) {
  TraceWriter silent({}, 0, 1);
  Metrics unwritten("");
  Hooks none;
  Trainer again({parts_.config, parts_.plan, parts_.loader, parts_.dataset, parts_.program, silent,
                 unwritten, none, nullptr, parts_.memory, 0, parts_.stop});
  while (again.next_step() < to.facts.step) {
    if (again.step().stop) return false;
  }
  const std::string place = fmt::format("resume from the seeds of step {}", to.facts.step);
  const auto require = [&](const char* what, const std::string& found, const std::string& there) {
    if (found == there) return;
    throw Error(ErrorKind::refused, place,
                fmt::format("{}: expected {}, as its manifest says, found {}", what, there, found));
  };
  require("state digest", parts_.checkpoints->state_digest(parts_.plan).hex(), to.recompute->hex());
  require("data cursor", parts_.loader.cursor().to_json().dump(), to.facts.cursor.dump());
  pipeline_idle_ = parts_.plan.pipeline_idle();
  offload_ = parts_.plan.offload();
  return true;
}

Digest Trainer::state_digest() {
  return parts_.checkpoints->state_digest(parts_.plan);
}

void Trainer::require_recomputable() const {
  if (const auto why = cannot_recompute(facts())) {
    throw Error(ErrorKind::refused, "checkpoint.strategy",
                fmt::format("found seed, but {}; expected sharded or full", *why));
  }
}

CheckpointFacts Trainer::facts() const {
  CheckpointFacts facts;
  Config config = parts_.config;
  config.data.remix = false;  // told for one resume, not for those that follow
  facts.step = step_;
  facts.run_line = run_line(config);
  facts.config = to_json(config);
  facts.layout = parts_.config.run.layout;
  facts.schedule = Json{{"step", step_}, {"lr", learning_rate(schedule_of(parts_.config), step_)}};
  facts.cursor = parts_.loader.cursor().to_json();
  facts.data_digest = parts_.dataset.digest().hex();
  facts.tokenizer_digest = parts_.dataset.tokenizer_digest().hex();
  facts.template_digest = "none";  // no data here goes through one
  facts.packing = packing_of(parts_.config);
  facts.parameter_groups = parameter_groups_of(parts_.config);
  facts.seeds = Json{{"training", parts_.config.training.seed}};
  facts.versions = parts_.program.versions;
  facts.origin = origin_;
  facts.kernel_fingerprint = parts_.program.kernels;
  return facts;
}

}  // namespace shardproof
