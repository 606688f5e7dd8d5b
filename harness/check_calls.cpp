// check_calls: both counts by group, kind and dtype, side by side.
#include "harness/check_calls.h"

#include <fmt/format.h>

#include <map>

#include "invariants/ruling.h"
#include "parallel/step_cost.h"
#include "train/sections.h"

namespace shardproof {
namespace {

struct Count {
  std::uint64_t calls = 0;
  std::uint64_t elements = 0;  // that the rank brought
  bool operator==(const Count&) const = default;
};
using Counts = std::map<std::string, Count>;  // by "state all_gather F32"

std::string key(std::string_view group, std::string_view op, std::string_view dtype) {
  // "world/dp.1/shard.0" -> "shard"
  const std::string_view last = group.substr(group.rfind('/') + 1);
  return fmt::format("{} {} {}", last.substr(0, last.find('.')), op, dtype);
}

std::map<std::int64_t, Counts> counted(const RankTrace& rank) {
  std::map<std::int64_t, Counts> out;
  for (const Json& event : rank.others) {
    if (event.value("kind", "") != "comm" || event.value("part", "") != "step") continue;
    Count& count = out[event.at("step").get<std::int64_t>()]
                      [key(event.at("group").get<std::string>(), event.at("op").get<std::string>(),
                           event.at("dtype").get<std::string>())];
    count.calls += event.at("n").get<std::uint64_t>();
    count.elements += event.at("count").get<std::uint64_t>();
  }
  return out;
}

Counts totals(const GroupCalls& groups) {
  Counts out;
  for (const auto& [label, calls] : groups) {
    for (const PredictedCall& call : calls) {
      Count& count = out[key(label, name(call.kind), name(call.dtype))];
      ++count.calls;
      count.elements += call.send_elements;
    }
  }
  return out;
}

// Of the first kind of call that differs; empty: none.
std::string difference(const Counts& expected, const Counts& found) {
  Counts all = expected;
  all.insert(found.begin(), found.end());
  for (const auto& each : all) {
    const std::string& what = each.first;
    const auto in = [&what](const Counts& counts) {
      const auto at = counts.find(what);
      return at == counts.end() ? Count{} : at->second;
    };
    const Count left = in(expected), right = in(found);
    if (left == right) continue;
    return fmt::format("{} {} calls with {} elements; expected {} calls with {}", what, right.calls,
                       right.elements, left.calls, left.elements);
  }
  return "";
}

std::string difference(const RankTrace& rank, const GroupCalls& predicted) {
  const auto found = counted(rank);
  const Counts expected = totals(predicted);
  for (const StepRecord& step : rank.steps) {
    const auto at = found.find(step.step);
    const std::string place = fmt::format("step {}, rank {}: ", step.step, rank.rank);
    if (const auto text = difference(expected, at == found.end() ? Counts{} : at->second);
        !text.empty()) {
      return place + text;
    }
    const auto sent = step.extra.value("bytes_sent", std::uint64_t{0});
    if (sent != bytes_of(predicted)) {
      return fmt::format("{}{} bytes sent; expected {}", place, sent, bytes_of(predicted));
    }
  }
  return "";
}

// Every gather of a unit brings its share in once where shares are offloaded.
std::string offload_difference(const RankTrace& rank, const Config& config,
                               const Counts& expected) {
  const Layout layout = parse_layout(config.run.layout);
  const bool copies = config.model.tied && layout.pp > 1;  // of a tied share, sent between stages
  if (config.parallel.offload_parameters == "none" || copies) return "";
  const auto gathers = expected.find("gather all_gather F32");
  const std::uint64_t bytes =
      gathers == expected.end() ? 0 : sizeof(float) * gathers->second.elements;
  const Json::json_pointer at("/offload/parameters/bytes_in");
  for (const Json& event : rank.others) {
    if (event.value("kind", "") != "memory" || !event.contains(at)) continue;
    if (event.at(at) == bytes) continue;
    return fmt::format("step {}, rank {}: {} bytes of offloaded parameters brought in; expected {}",
                       event.at("step").get<std::int64_t>(), rank.rank, event.at(at).dump(), bytes);
  }
  return "";
}

}  // namespace

Verdict check_calls(const Trace& trace) {
  Verdict verdict =
      open_verdict("calls",
                   "Every rank makes the calls of a step that its layout and shapes say, and sends "
                   "as many bytes.");
  std::size_t steps = 0;
  for (const RankTrace& rank : trace.ranks) {
    if (!rank.run.is_object() || !rank.run.contains("config")) {
      return undecided(verdict, fmt::format("rank {} does not say its Config", rank.rank));
    }
    const Config config = parse_config_json(rank.run.at("config").dump(), "the trace's config");
    const auto backend = config.run.backend == "mpi" ? CommBackend::mpi : CommBackend::threads;
    const GroupCalls predicted = predicted_step(parse_layout(config.run.layout), plan_of(config),
                                                config.training.micro_batch, rank.rank, backend);
    std::string text = difference(rank, predicted);
    if (text.empty()) text = offload_difference(rank, config, totals(predicted));
    if (!text.empty()) return fails(verdict, text);
    steps += rank.steps.size();
  }
  return steps == 0 ? undecided(verdict, "no step is traced") : passes(verdict);
}

}  // namespace shardproof
