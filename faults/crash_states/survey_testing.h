// survey_testing: surveys of several scenarios, their counts printed, every broken state a failure.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <vector>

#include "faults/crash_states/scenarios.h"

namespace shardproof::crash::testing {

inline Tally expect_none_broken(const std::vector<Scenario>& scenarios, std::size_t stride) {
  const auto start = std::chrono::steady_clock::now();
  SurveyOptions options;
  options.stride = stride;
  Tally all;
  for (const Scenario& scenario : scenarios) {
    const Tally tally = survey(scenario, options);
    if (scenarios.size() <= 10) std::cout << scenario.name << ": " << tally.judged << " states\n";
    all.add(tally);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << all.print() << static_cast<double>(all.judged) / seconds.count() << " a second\n";
  for (const std::string& broken : all.broken) ADD_FAILURE() << broken;
  return all;
}

}  // namespace shardproof::crash::testing
