// optimizer: the learning rate, the clip and AdamW of captured steps, recomputed in double by code
// that shares nothing with the trainer. AdamW is nearly blind to the scale of a gradient, so the
// moments are judged as well as the parameters.
#include <algorithm>
#include <cmath>
#include <map>

#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

constexpr double roundoff = 0x1p-24;   // half an ulp of fp32, relative
constexpr double smallest = 0x1p-147;  // a few roundings of subnormal fp32, absolute

struct Settings {
  double lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0, final_ratio = 0, clip = 0;
  std::int64_t warmup = 0, decay_steps = 0;
  std::vector<std::string> no_decay;
};

// Nothing when the config is not of our form (somebody else's trainer).
std::optional<Settings> settings_of(const Json& config) try {
  const Json& optimizer = config.at("optimizer");
  Settings out;
  out.lr = optimizer.at("lr");
  out.beta1 = optimizer.at("beta1");
  out.beta2 = optimizer.at("beta2");
  out.epsilon = optimizer.at("epsilon");
  out.decay = optimizer.at("weight_decay");
  out.final_ratio = optimizer.at("final_ratio");
  out.warmup = optimizer.at("warmup");
  out.decay_steps = optimizer.at("decay_steps");
  out.clip = config.at("training").at("clip");
  out.no_decay = optimizer.at("no_decay").get<std::vector<std::string>>();
  return out;
} catch (const Json::exception&) {
  return std::nullopt;
}

// '*' matches any text.
bool matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*') {
    return !text.empty() && pattern.front() == text.front() &&
           matches(pattern.substr(1), text.substr(1));
  }
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (matches(pattern.substr(1), text.substr(i))) return true;
  }
  return false;
}

double expected_rate(const Settings& settings, std::int64_t step) {
  const auto t = static_cast<double>(step), warm = static_cast<double>(settings.warmup);
  if (step < settings.warmup) return settings.lr * (t + 1) / warm;
  if (settings.decay_steps == 0) return settings.lr;
  const double last = static_cast<double>(settings.decay_steps) - 1;
  const double span = last - warm;
  const double done = span <= 0 ? 1 : std::min(1.0, (t - warm) / span);
  const double low = settings.lr * settings.final_ratio;
  return low + (settings.lr - low) * 0.5 * (1 + std::cos(std::acos(-1.0) * done));
}

// The captured state around one step.
struct Around {
  std::int64_t step = 0;
  BytesMap before, grad, after, moments_before, moments_after;
};

std::optional<Around> around(const Trace& trace, std::int64_t step) {
  Around out{step,
             bytes_at(trace, step - 1, "param"),
             bytes_at(trace, step, "grad"),
             bytes_at(trace, step, "param"),
             bytes_at(trace, step - 1, "moment"),
             bytes_at(trace, step, "moment")};
  const bool whole = !out.before.empty() && !out.grad.empty() && !out.after.empty() &&
                     !out.moments_after.empty() && (step == 0 || !out.moments_before.empty());
  if (!whole) return std::nullopt;
  return out;
}

std::vector<float> values(const BytesMap& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) throw Error(ErrorKind::corrupt, "tensor " + name, "was not captured");
  return assemble(found->second).floats();
}

// One element against its bound; the address of the first that leaves it.
struct Judge {
  std::int64_t step = 0;
  std::int64_t elements = 0;
  double worst = 0;  // |error| / bound
  std::optional<Difference> first;

  void element(const char* phase, const std::string& name, const BytesMap& where, std::size_t index,
               double expected, double bound, float found) {
    ++elements;
    const double error = std::abs(static_cast<double>(found) - expected);
    if (bound > 0) worst = std::max(worst, error / bound);
    if (error <= bound || first) return;  // false for a NaN
    const Located at = locate(where.at(name), static_cast<std::int64_t>(index));
    const auto rounded = static_cast<float>(expected);
    const auto hex = [](const float& value) {
      return element_hex(Dtype::f32, reinterpret_cast<const std::byte*>(&value));
    };
    first = Difference{step,
                       phase,
                       name,
                       at.piece,
                       at.rank,
                       at.element,
                       fmt::format("{} ({:.9g} within {:.2g})", hex(rounded), expected, bound),
                       fmt::format("{} ({:.9g})", hex(found), static_cast<double>(found))};
  }
};

// One parameter and its state around a step, whole.
struct Values {
  std::vector<float> grad, w0, m0, v0, w, m, v;
};

Values values_of(const Around& at, const std::string& name) {
  Values out;
  out.grad = values(at.grad, name);
  out.w0 = values(at.before, name);
  out.w = values(at.after, name);
  out.m = values(at.moments_after, name + "/exp_avg");
  out.v = values(at.moments_after, name + "/exp_avg_sq");
  if (at.step > 0) {
    out.m0 = values(at.moments_before, name + "/exp_avg");
    out.v0 = values(at.moments_before, name + "/exp_avg_sq");
  } else {
    out.m0.resize(out.grad.size());
    out.v0.resize(out.grad.size());
  }
  for (const auto* each : {&out.w0, &out.m0, &out.v0, &out.w, &out.m, &out.v}) {
    if (each->size() == out.grad.size()) continue;
    throw Error(ErrorKind::corrupt, "tensor " + name, "its gradient or state has another size");
  }
  return out;
}

bool decays_by_name(const Settings& settings, const std::string& name) {
  return std::none_of(settings.no_decay.begin(), settings.no_decay.end(),
                      [&](const std::string& each) { return matches(each, name); });
}

void judge_tensor(const Settings& settings, const Around& at, double rate, double factor,
                  const std::string& name, Judge& judge) {
  const Values x = values_of(at, name);
  const double decay = decays_by_name(settings, name) ? settings.decay : 0;
  const double t = static_cast<double>(at.step + 1);
  const double correct1 = 1 - std::pow(settings.beta1, t);
  const double correct2 = 1 - std::pow(settings.beta2, t);
  for (std::size_t i = 0; i < x.grad.size(); ++i) {
    const double g = factor * x.grad[i];
    const double keep1 = settings.beta1 * x.m0[i], add1 = (1 - settings.beta1) * g;
    judge.element("moment", name + "/exp_avg", at.moments_after, i, keep1 + add1,
                  8 * roundoff * (std::abs(keep1) + std::abs(add1)) + smallest, x.m[i]);
    const double keep2 = settings.beta2 * x.v0[i], add2 = (1 - settings.beta2) * g * g;
    judge.element("moment", name + "/exp_avg_sq", at.moments_after, i, keep2 + add2,
                  8 * roundoff * (keep2 + add2) + smallest, x.v[i]);
    // From the moments as traced: what they should be was judged above.
    const double direction =
        (x.m[i] / correct1) / (std::sqrt(x.v[i] / correct2) + settings.epsilon);
    const double size = rate * (std::abs(direction) + decay * std::abs(x.w0[i]));
    const double expected = x.w0[i] - rate * (direction + decay * x.w0[i]);
    judge.element("param", name, at.after, i, expected,
                  roundoff * std::abs(expected) + 16 * roundoff * size + smallest, x.w[i]);
  }
}

// What is wrong with a step's scalars; empty when nothing is. Sets `norm`.
std::string scalar_problem(const Settings& settings, const Around& at, const StepRecord& record,
                           double& norm) {
  long double squares = 0;
  for (const auto& [name, entries] : at.grad) {
    for (const float g : assemble(entries).floats()) squares += static_cast<double>(g) * g;
  }
  norm = static_cast<double>(std::sqrt(squares));
  if (!(std::abs(record.grad_norm - norm) <= 0x1p-36 * norm)) {
    return fmt::format("step {}: grad_norm is {:.12g}, the captured gradients have {:.12g}",
                       at.step, record.grad_norm, norm);
  }
  const double rate = expected_rate(settings, at.step);
  if (!(std::abs(record.lr - rate) <= 0x1p-48 * settings.lr)) {
    return fmt::format("step {}: the learning rate is {:.12g}, the schedule gives {:.12g}", at.step,
                       record.lr, rate);
  }
  return "";
}

}  // namespace

Verdict check_optimizer(const Trace& trace) {
  Verdict verdict =
      open_verdict("optimizer",
                   "learning rate, gradient norm, clip and AdamW of the captured steps, recomputed "
                   "in double from the captured gradients and state, agree within fp32 rounding "
                   "(moments 8 u, parameters u |w| + 16 u |update|, u = 2^-24)");
  if (trace.ranks.empty()) return undecided(verdict, "no rank wrote a trace");
  if (kept_to(trace)) {
    return undecided(verdict, kept_text(trace) + ": norm and clip are over the gradients of all");
  }
  const Json& run = trace.ranks.front().run;
  const auto known = settings_of(run.is_object() ? run.value("config", Json()) : Json());
  if (!known) return undecided(verdict, "the run does not say its optimizer's settings");
  const Settings& settings = *known;
  Judge judge;
  std::int64_t steps = 0, clipped = 0;
  for (const std::int64_t step : trace.step_numbers()) {
    const std::optional<Around> at = around(trace, step);
    const StepRecord* record = trace.ranks.front().find_step(step);
    if (!at || record == nullptr) continue;
    if (is_missing(*record, "grad_norm") || is_missing(*record, "lr")) {
      return undecided(verdict, fmt::format("step {} has no gradient norm or learning rate", step));
    }
    double norm = 0;
    const std::string problem = scalar_problem(settings, *at, *record, norm);
    if (!problem.empty()) return fails(verdict, problem);
    const double factor = settings.clip > 0 ? std::min(1.0, settings.clip / (norm + 1e-6)) : 1;
    judge.step = step;
    for (const auto& [name, entries] : at->before) {
      judge_tensor(settings, *at, expected_rate(settings, step), factor, name, judge);
    }
    ++steps;
    clipped += factor < 1;
    if (judge.first) {
      return fails(verdict,
                   fmt::format("step {}: {} is not what AdamW makes of the gradient "
                               "(clip factor {:.9g})",
                               step, judge.first->tensor, factor),
                   judge.first);
    }
  }
  if (steps == 0) {
    return undecided(verdict, "no two consecutive steps were captured with gradients and state");
  }
  verdict.notes.push_back(
      fmt::format("{} steps, {} elements recomputed; the clip was at work on {} "
                  "of them; worst error {:.2f} of its bound",
                  steps, judge.elements, clipped, judge.worst));
  return passes(verdict);
}

}  // namespace shardproof
