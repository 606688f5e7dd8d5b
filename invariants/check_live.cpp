// live: a dead run is not equal to a dead run. Steps, loss, gradients must really have happened.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

// What is wrong with the steps of one rank; empty when nothing is. An import has the steps that the
// program logged, which need not be all.
std::string step_problem(const RankTrace& rank, std::int64_t asked, bool imported) {
  if (rank.runs != 1)
    return fmt::format("rank {} wrote {} run events, not 1", rank.rank, rank.runs);
  if (!rank.ended && tells_end(rank)) {
    return rank.last_at ? fmt::format("rank {} never ended; it stopped at step {} {}", rank.rank,
                                      rank.last_at->step, rank.last_at->phase)
                        : fmt::format("rank {} never ended", rank.rank);
  }
  if (!imported && static_cast<std::int64_t>(rank.steps.size()) != asked) {
    return fmt::format("rank {} did {} steps, not {}", rank.rank, rank.steps.size(), asked);
  }
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    const StepRecord& step = rank.steps[i];
    if (!imported && step.step != rank.steps.front().step + static_cast<std::int64_t>(i)) {
      return fmt::format("rank {}: step {} follows step {}", rank.rank, step.step,
                         rank.steps[i - 1].step);
    }
    if (!std::isfinite(step.loss) && !is_missing(step, "loss")) {
      return fmt::format("rank {} step {}: the loss is {}", rank.rank, step.step, step.loss);
    }
    // A loss scaler skips a step whose norm is none.
    const bool norm = step.skipped || (step.grad_norm > 0 && std::isfinite(step.grad_norm));
    if (!norm && !is_missing(step, "grad_norm")) {
      return fmt::format("rank {} step {}: the gradient norm is {}", rank.rank, step.step,
                         step.grad_norm);
    }
  }
  const auto skipped = [](const StepRecord& step) { return step.skipped; };
  if (!rank.steps.empty() && std::all_of(rank.steps.begin(), rank.steps.end(), skipped)) {
    return fmt::format("rank {} skipped every step", rank.rank);
  }
  return "";
}

bool loss_moves(const RankTrace& rank) {
  std::set<std::string> seen;
  for (const StepRecord& step : rank.steps) seen.insert(scalar_bits(step.loss));
  return seen.size() > 1;
}

// The first step without a loss or a gradient norm, in words; empty when there is none.
std::string lacking_scalar(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    for (const StepRecord& step : rank.steps) {
      for (const char* key : {"loss", "grad_norm"}) {
        if (is_missing(step, key)) return fmt::format("no {} at step {}", key, step.step);
      }
    }
  }
  return "";
}

// Why an import cannot be said to live, though nothing in it is wrong.
std::string import_reason(const Trace& trace, std::int64_t asked) {
  std::string out = imported_text(trace, trace);
  const RankTrace& rank = trace.ranks.front();
  const auto logged = static_cast<std::int64_t>(rank.steps.size());
  if (logged != asked) out += fmt::format("; {} of {} steps were logged", logged, asked);
  if (!tells_end(rank)) out += "; whether the run ended is not known";
  if (!loss_moves(rank)) out += "; the loss has the same digits at every step";
  if (const std::string lacking = lacking_scalar(trace); !lacking.empty()) out += "; " + lacking;
  return out;
}

// Parameter name -> whether some gradient of it was not all zero.
std::map<std::string, bool> gradients_seen(const Trace& trace) {
  std::map<std::string, bool> out;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      if (record.what == "grad" && record.norm != 0) out[record.place.name] = true;
      if (record.what == "param") out.try_emplace(record.place.name, false);
    }
  }
  for (const std::int64_t step : tensor_steps(trace, "param")) {
    for (const auto& [name, entries] : bytes_at(trace, step, "param")) {
      // One of no elements has no gradient to have.
      if (element_count(entries.front().entry.place.global_shape) > 0) out.try_emplace(name, false);
    }
    break;
  }
  for (const std::int64_t step : tensor_steps(trace, "grad")) {
    for (const auto& [name, entries] : bytes_at(trace, step, "grad")) {
      for (const HeldBytes& each : entries) {
        const std::size_t width = size_of(each.entry.dtype);
        for (std::size_t at = 0; at + width <= each.entry.bytes.size() && !out[name]; at += width) {
          out[name] = element_value(each.entry.dtype, &each.entry.bytes[at]) != 0;
        }
      }
    }
  }
  return out;
}

}  // namespace

Verdict check_live(const Trace& trace, std::int64_t steps_asked) {
  Verdict verdict = open_verdict(
      "live", fmt::format("every rank does {} steps and ends; the loss moves and stays finite; the "
                          "gradient norm is above 0; every parameter has a gradient",
                          steps_asked));
  if (trace.ranks.empty() || trace.world() == 0) {
    return undecided(verdict, "no rank wrote a run event");
  }
  if (static_cast<int>(trace.ranks.size()) != trace.world()) {
    return fails(verdict,
                 fmt::format("{} of {} ranks wrote a trace", trace.ranks.size(), trace.world()));
  }
  const bool imported = imported_from(trace).has_value();
  for (const RankTrace& rank : trace.ranks) {
    const std::string problem = step_problem(rank, steps_asked, imported);
    if (!problem.empty()) return fails(verdict, problem);
    if (!imported && steps_asked > 1 && !loss_moves(rank)) {
      return fails(verdict,
                   fmt::format("rank {}: the loss has the same bits at every step", rank.rank));
    }
  }
  if (imported) return undecided(verdict, import_reason(trace, steps_asked));
  if (const std::string lacking = lacking_scalar(trace); !lacking.empty()) {
    return undecided(verdict, lacking);
  }
  if (steps_asked < 2) return undecided(verdict, "fewer than 2 steps: nothing can move");
  const std::map<std::string, bool> seen = gradients_seen(trace);
  const std::set<std::string> frozen = frozen_names(trace);
  if (seen.empty()) return undecided(verdict, "no parameter was traced");
  for (const auto& [name, alive] : seen) {
    if (!alive && frozen.count(name) == 0) {
      return fails(verdict, fmt::format("parameter {} has no gradient at any traced step and is "
                                        "not listed as frozen",
                                        name));
    }
  }
  verdict.notes.push_back(fmt::format("{} parameters, {} frozen", seen.size(), frozen.size()));
  return passes(verdict);
}

}  // namespace shardproof
