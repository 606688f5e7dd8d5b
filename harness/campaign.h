// campaign: every fault point of a Run x every kind of fault that can happen there, each a scenario
// of its own (fault_run.h), counted by kind and outcome. With a budget of seconds the scenarios run
// in an order drawn from a seed, until it is spent: then `left` says how many did not.
// Thread rule: one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <vector>

#include "harness/fault_run.h"

namespace shardproof {

struct CampaignOptions {
  Config config;
  std::vector<FaultKind> kinds;  // empty: all that thread ranks can simulate
  int part = 1, parts = 1;    // every parts-th scenario, from the part-th on: for several machines
  double budget_seconds = 0;  // 0: to the end
  std::uint64_t seed = 1;
  double hang_seconds = 20;
  const std::atomic<bool>* stop = nullptr;
  // After each scenario.
  std::function<void(const FaultScenario&, const FaultResult&)> ended;
};

struct KindCount {
  int points = 0;  // in the discovery, times moments
  int ran = 0;
  int fired = 0;
  std::map<FaultOutcome, int> outcomes;
  int failed = 0;
};

struct CampaignReport {
  std::map<FaultKind, KindCount> kinds;
  int points = 0;  // addresses passed
  int left = 0;
  int failed = 0;
  double seconds = 0;
};

CampaignReport run_campaign(const CampaignOptions& options);
std::string campaign_table(const CampaignReport& report);

// The Case with what a scenario needs and a Run line may leave out: checkpoints every second step,
// short looks into waits, a deadline of seconds, spikes rolled back, every step audited. Keys that
// are not at their defaults stay.
Config with_fault_defaults(Config config);

}  // namespace shardproof
