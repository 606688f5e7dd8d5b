// sweep_report: sweeps as lines for people and as JSON for programs. Thread rule: pure.
#pragma once

#include <string>

#include "base/json.h"
#include "harness/sweep/crash_sweep.h"
#include "harness/sweep/damage_sweep.h"

namespace shardproof {

std::string line_of(const SweepPoint& point);
std::string line_of(const DamagePoint& point);
std::string summary(const CrashSweep& sweep);
std::string summary(const DamageSweep& sweep);
Json to_json(const CrashSweep& sweep);
Json to_json(const DamageSweep& sweep);

}  // namespace shardproof
