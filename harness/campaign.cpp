// campaign: the list of scenarios, and their counts.
#include "harness/campaign.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "faults/inject/fault_draw.h"

namespace shardproof {
CampaignReport run_campaign(const CampaignOptions& options) {
  CampaignReport report;
  FaultRunner runner(options.hang_seconds);
  const Duration start = Clock::real().now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(Clock::real().now() - start).count();
  };
  const auto points = runner.discover(options.config);
  report.points = static_cast<int>(points.size());
  std::vector<Fault> faults;
  const std::vector<Fault> all = campaign_faults(points, options.kinds);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i % static_cast<std::size_t>(options.parts)) == options.part - 1) {
      faults.push_back(all[i]);
    }
  }
  for (const Fault& fault : faults) ++report.kinds[fault.kind].points;
  if (options.budget_seconds > 0) shuffle(faults, options.seed);
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const bool spent = i > 0 && options.budget_seconds > 0 && seconds() > options.budget_seconds;
    if (spent || (options.stop != nullptr && options.stop->load())) {
      report.left = static_cast<int>(faults.size() - i);
      break;
    }
    const FaultScenario scenario{options.config, {faults[i]}, "", ""};
    const FaultResult result = runner.run(scenario);
    KindCount& count = report.kinds[faults[i].kind];
    ++count.ran;
    for (const FaultRunEnd& run : result.runs) count.fired += static_cast<int>(run.fired.size());
    ++count.outcomes[result.outcome];
    if (!result.pass) {
      ++count.failed;
      ++report.failed;
    }
    if (options.ended) options.ended(scenario, result);
  }
  report.seconds = seconds();
  return report;
}

std::string campaign_table(const CampaignReport& report) {
  std::string out =
      fmt::format("{:<18}{:>8}{:>8}{:>8}{:>10}{:>10}{:>9}{:>8}{:>6}{:>11}\n", "fault", "points",
                  "ran", "fired", "survived", "detected", "refused", "SILENT", "HUNG", "NOT FIRED");
  KindCount all;
  const auto row = [&](std::string_view name, const KindCount& count) {
    const auto of = [&](FaultOutcome outcome) {
      const auto found = count.outcomes.find(outcome);
      return found == count.outcomes.end() ? 0 : found->second;
    };
    out +=
        fmt::format("{:<18}{:>8}{:>8}{:>8}{:>10}{:>10}{:>9}{:>8}{:>6}{:>11}\n", name, count.points,
                    count.ran, count.fired, of(FaultOutcome::survived_equal),
                    of(FaultOutcome::detected), of(FaultOutcome::refused), of(FaultOutcome::silent),
                    of(FaultOutcome::hung), of(FaultOutcome::not_fired));
  };
  for (const auto& [kind, count] : report.kinds) {
    row(name(kind), count);
    all.points += count.points;
    all.ran += count.ran;
    all.fired += count.fired;
    for (const auto& [outcome, times] : count.outcomes) all.outcomes[outcome] += times;
  }
  row("all", all);
  return out;
}

Config with_fault_defaults(Config config) {
  const Config usual;
  if (config.checkpoint.every == usual.checkpoint.every) config.checkpoint.every = 2;
  if (config.guard.look_seconds == usual.guard.look_seconds) config.guard.look_seconds = 0.1;
  if (config.guard.stall_seconds == usual.guard.stall_seconds) config.guard.stall_seconds = 1;
  if (config.guard.spike_factor == usual.guard.spike_factor) config.guard.spike_factor = 2;
  if (config.guard.audit_every == usual.guard.audit_every) config.guard.audit_every = 1;
  if (config.run.deadline == usual.run.deadline) config.run.deadline = 5;
  config.checkpoint.directory = "memory";
  return config;
}

}  // namespace shardproof
