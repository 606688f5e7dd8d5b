// show_schedule: a table of units of time.
#include "harness/cli/show_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline_rules.h"
#include "parallel/schedule_simulator.h"

namespace shardproof {
namespace {

constexpr int most_actions = 1 << 16;

void check(const Layout& layout, int micro_batches) {
  if (layout.pp < 2) {
    throw Error(ErrorKind::bad_input, "layout " + layout.print(),
                "has one stage and no schedule; expected pp >= 2, such as pp4-1f1b");
  }
  if (const std::string text = rounds_problem(layout, micro_batches); !text.empty()) {
    throw Error(ErrorKind::bad_input, "schedule", text);
  }
  const double actions = 2.0 * layout.pp * chunks_of(layout) * micro_batches;
  if (actions > most_actions) {
    throw Error(ErrorKind::bad_input, "layout " + layout.print(),
                fmt::format("has {} actions with {} micro-batches; expected at most {} to show",
                            actions, micro_batches, most_actions));
  }
}

std::size_t cell_width(const Simulation& of) {
  std::size_t width = 0;
  for (const StageTimes& stage : of.stages) {
    for (const TimedAction& each : stage.actions)
      width = std::max(width, print(each.action).size());
  }
  return width + 1;
}

// A cell per unit of time: the action that begins there, "-" while it goes on, "." where it waits.
std::string timeline(const StageTimes& stage, double makespan, std::size_t width) {
  std::vector<std::string> cells(static_cast<std::size_t>(std::lround(makespan)), ".");
  for (const TimedAction& each : stage.actions) {
    const auto begin = static_cast<std::size_t>(std::lround(each.begin));
    const auto end = static_cast<std::size_t>(std::lround(each.end));
    cells[begin] = print(each.action);
    for (std::size_t unit = begin + 1; unit < end; ++unit) cells[unit] = "-";
  }
  std::string text;
  for (const std::string& cell : cells) text += fmt::format("{:<{}}", cell, width);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string formula_of(const Layout& layout) {
  if (layout.schedule == "zb") return "(p-1)(f+i-w) / (m(f+i+w) + (p-1)(f+i-w)), from m = p on";
  return chunks_of(layout) > 1 ? "(p-1) / (Vm+p-1)" : "(p-1) / (m+p-1)";
}

Json to_json(const Simulation& of, int stage) {
  const StageTimes& times = of.stages[static_cast<std::size_t>(stage)];
  Json actions = Json::array();
  for (const TimedAction& each : times.actions) {
    actions.push_back({{"action", print(each.action)}, {"begin", each.begin}, {"end", each.end}});
  }
  return {{"stage", stage},
          {"bubble", of.bubble(stage)},
          {"most_in_flight", times.most_in_flight},
          {"actions", actions}};
}

}  // namespace

ShownSchedule show_schedule(const Layout& layout, int micro_batches) {
  Layout pipeline;  // of one data rank
  pipeline.pp = layout.pp;
  pipeline.schedule = layout.schedule;
  check(pipeline, micro_batches);
  std::vector<int> mine(static_cast<std::size_t>(micro_batches));
  for (int m = 0; m < micro_batches; ++m) mine[static_cast<std::size_t>(m)] = m;
  const Simulation of = simulate(all_stages(pipeline, mine), chunks_of(pipeline));
  const double formula = bubble_formula(pipeline, micro_batches);

  ShownSchedule shown;
  shown.text = fmt::format(
      "{}: {} micro-batches on {} stages{}\n"
      "F forward, B backward (I gradient of the input, W of the weights){}; one column is one "
      "forward\n",
      pipeline.print(), micro_batches, pipeline.pp,
      chunks_of(pipeline) > 1 ? fmt::format(" of {} chunks", chunks_of(pipeline)) : "",
      chunks_of(pipeline) > 1 ? ", .1 on chunk 1" : "");
  Json stages = Json::array();
  const std::size_t width = cell_width(of);
  for (int stage = 0; stage < pipeline.pp; ++stage) {
    const StageTimes& times = of.stages[static_cast<std::size_t>(stage)];
    shown.text += fmt::format("stage {:<3} {}\n", stage, timeline(times, of.makespan, width));
    stages.push_back(to_json(of, stage));
  }
  for (int stage = 0; stage < pipeline.pp; ++stage) {
    shown.text += fmt::format("stage {:<3} bubble {:5.1f} %, at most {} in flight\n", stage,
                              100 * of.bubble(stage),
                              of.stages[static_cast<std::size_t>(stage)].most_in_flight);
  }
  shown.text += fmt::format("{} units, bubble {:.1f} %; by the formula {:.1f} %: {}\n", of.makespan,
                            100 * of.mean_bubble(), 100 * formula, formula_of(pipeline));
  shown.json = {{"layout", pipeline.print()},
                {"micro_batches", micro_batches},
                {"chunks", chunks_of(pipeline)},
                {"units", of.makespan},
                {"bubble", of.mean_bubble()},
                {"formula", formula},
                {"stages", stages}};
  return shown;
}

}  // namespace shardproof
