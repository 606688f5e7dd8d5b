// schedule_simulator: completeness, then a run to the end or to a standstill.
#include "parallel/schedule_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"

namespace shardproof {
namespace {

using enum ActionKind;

// What another action waits for: the outputs of a unit, by virtual stage.
struct Output {
  bool gradient = false;  // of the input, for the stage before
  int micro_batch = 0;
  int virtual_stage = 0;
  auto operator<=>(const Output&) const = default;
};

class Simulator {
 public:
  Simulator(const std::vector<Schedule>& stages, int chunks, const ActionCosts& costs,
            std::string place)
      : schedules_(stages),
        pipeline_(static_cast<int>(stages.size())),
        chunks_(chunks),
        costs_(costs),
        place_(std::move(place)) {}

  Simulation run() {
    check_complete();
    Simulation out;
    out.stages.resize(schedules_.size());
    at_.assign(schedules_.size(), 0);
    while (pass(out)) {
    }
    if (const auto stuck = first_stuck()) fail(circle_from(*stuck));
    for (const StageTimes& stage : out.stages) {
      if (!stage.actions.empty()) out.makespan = std::max(out.makespan, stage.actions.back().end);
    }
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::bad_input, place_, what);
  }

  int virtual_stage(int stage, const Action& action) const {
    return action.chunk * pipeline_ + stage;
  }

  // ---- every unit once, in an order that its stage can keep ----

  void check_complete() const {
    std::set<int> micro_batches;
    for (const Schedule& schedule : schedules_) {
      for (const Action& action : schedule) micro_batches.insert(action.micro_batch);
    }
    for (int stage = 0; stage < pipeline_; ++stage) check_stage(stage, micro_batches);
  }

  void check_stage(int stage, const std::set<int>& micro_batches) const {
    std::set<std::tuple<ActionKind, int, int>> seen;
    for (const Action& a : schedules_[static_cast<std::size_t>(stage)]) {
      const auto had = [&](ActionKind kind) {
        return seen.contains({kind, a.micro_batch, a.chunk});
      };
      const auto refuse = [&](const std::string& why) {
        fail(fmt::format("stage {}: {} {}", stage, print(a), why));
      };
      if (a.chunk < 0 || a.chunk >= chunks_) {
        refuse(fmt::format("is of chunk {}; expected one of {} chunks", a.chunk, chunks_));
      }
      if (had(a.kind)) refuse("comes twice; expected once");
      if (a.kind != forward && !had(forward)) refuse("comes before its forward");
      if (a.kind == backward_weight && !had(backward_input)) {
        refuse("comes before the gradient of its input");
      }
      if ((a.kind == backward && had(backward_input)) ||
          (a.kind == backward_input && had(backward))) {
        refuse("is a second backward of its micro-batch");
      }
      seen.insert({a.kind, a.micro_batch, a.chunk});
    }
    for (const int m : micro_batches) {
      for (int chunk = 0; chunk < chunks_; ++chunk) check_unit(stage, m, chunk, seen);
    }
  }

  void check_unit(int stage, int m, int chunk,
                  const std::set<std::tuple<ActionKind, int, int>>& seen) const {
    const auto missing = [&](ActionKind kind, std::string_view words) {
      if (seen.contains({kind, m, chunk})) return;
      fail(fmt::format("stage {}: {} ({} of micro-batch {} on chunk {}) is missing", stage,
                       print(Action{kind, m, chunk}), words, m, chunk));
    };
    missing(forward, "the forward");
    if (!seen.contains({backward_input, m, chunk}) && !seen.contains({backward_weight, m, chunk})) {
      missing(backward, "the backward");
    } else {
      missing(backward_input, "the gradient of the input");
      missing(backward_weight, "the gradient of the weights");
    }
  }

  // ---- time ----

  std::optional<Output> waits_for(int stage, const Action& action) const {
    const int here = virtual_stage(stage, action);
    if (action.kind == forward && here > 0) return Output{false, action.micro_batch, here - 1};
    const bool receives_gradient = action.kind == backward || action.kind == backward_input;
    if (receives_gradient && here < pipeline_ * chunks_ - 1) {
      return Output{true, action.micro_batch, here + 1};
    }
    return std::nullopt;
  }

  // Runs each stage as far as it gets; false when none moved.
  bool pass(Simulation& out) {
    bool moved = false;
    for (int stage = 0; stage < pipeline_; ++stage) {
      const Schedule& schedule = schedules_[static_cast<std::size_t>(stage)];
      std::size_t& at = at_[static_cast<std::size_t>(stage)];
      for (; at < schedule.size(); ++at, moved = true) {
        const auto input = waits_for(stage, schedule[at]);
        if (input && !outputs_.contains(*input)) break;
        perform(stage, schedule[at], input ? outputs_.at(*input) : 0,
                out.stages[static_cast<std::size_t>(stage)]);
      }
    }
    return moved;
  }

  void perform(int stage, const Action& action, double input_at, StageTimes& times) {
    const double free_at = times.actions.empty() ? 0 : times.actions.back().end;
    const double begin = std::max(free_at, input_at);
    const double cost = costs_.of(action.kind);
    times.actions.push_back({action, begin, begin + cost});
    times.busy += cost;
    if (action.kind != backward_weight) {
      outputs_[{action.kind != forward, action.micro_batch, virtual_stage(stage, action)}] =
          begin + cost;
    }
    int& in_flight = in_flight_[stage];
    if (action.kind == forward) times.most_in_flight = std::max(times.most_in_flight, ++in_flight);
    if (action.kind == backward || action.kind == backward_weight) --in_flight;
  }

  // ---- a standstill ----

  std::optional<int> first_stuck() const {
    for (int stage = 0; stage < pipeline_; ++stage) {
      if (is_stuck(stage)) return stage;
    }
    return std::nullopt;
  }

  bool is_stuck(int stage) const {
    return at_[static_cast<std::size_t>(stage)] <
           schedules_[static_cast<std::size_t>(stage)].size();
  }

  const Action& waiting(int stage) const {
    const auto s = static_cast<std::size_t>(stage);
    return schedules_[s][at_[s]];
  }

  // Every stage that has stopped waits for an output of a stage that has stopped: following them
  // ends in a circle.
  std::string circle_from(int stage) const {
    std::vector<int> path;
    while (std::ranges::find(path, stage) == path.end()) {
      path.push_back(stage);
      stage = waits_for(stage, waiting(stage))->virtual_stage % pipeline_;
    }
    std::string text = "stages wait for each other in a circle:";
    for (auto at = std::ranges::find(path, stage); at != path.end(); ++at) {
      const Action& action = waiting(*at);
      const Output input = *waits_for(*at, action);
      text += fmt::format("{} stage {} at {} waits for {} {} of stage {}",
                          at == path.begin() ? "" : ";", *at, print(action),
                          input.gradient ? "the gradient" : "the activation", input.micro_batch,
                          input.virtual_stage % pipeline_);
    }
    return text;
  }

  const std::vector<Schedule>& schedules_;
  const int pipeline_;
  const int chunks_;
  const ActionCosts costs_;
  const std::string place_;
  std::vector<std::size_t> at_;       // by stage: its next action
  std::map<Output, double> outputs_;  // when each was there
  std::map<int, int> in_flight_;      // by stage
};

}  // namespace

double ActionCosts::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::forward:
      return forward;
    case ActionKind::backward:
      return backward_input + backward_weight;
    case ActionKind::backward_input:
      return backward_input;
    case ActionKind::backward_weight:
      return backward_weight;
  }
  return 0;
}

double Simulation::bubble(int stage) const {
  if (makespan <= 0) return 0;
  return 1 - stages.at(static_cast<std::size_t>(stage)).busy / makespan;
}

double Simulation::mean_bubble() const {
  double sum = 0;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage) sum += bubble(stage);
  return stages.empty() ? 0 : sum / static_cast<double>(stages.size());
}

Simulation simulate(const std::vector<Schedule>& stages, int chunks, const ActionCosts& costs,
                    const std::string& place) {
  return Simulator(stages, chunks, costs, place).run();
}

double bubble_formula(const Layout& layout, int micro_batches, const ActionCosts& costs) {
  const double behind = layout.pp - 1;
  const double m = micro_batches;
  if (behind == 0 || m == 0) return 0;
  if (layout.schedule != "zb") return behind / (chunks_of(layout) * m + behind);
  const double idle = behind * (costs.forward + costs.backward_input - costs.backward_weight);
  return idle / (m * (costs.forward + costs.of(ActionKind::backward)) + idle);
}

}  // namespace shardproof
