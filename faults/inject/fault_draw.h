// fault_draw: faults drawn from a seed out of what a discovery found: the same seed, points and
// kinds give the same faults. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "faults/inject/injector.h"

namespace shardproof {

// What can befall a rank at this point, as faults of the first run; kinds empty: all. On threads
// exit is as kill, so only kill is listed.
std::vector<Fault> faults_at(const PassedPoint& passed, const std::vector<FaultKind>& kinds);
// Every scenario of a discovery, in the order of its points.
std::vector<Fault> campaign_faults(const std::vector<PassedPoint>& points,
                                   const std::vector<FaultKind>& kinds);
// In a drawn order.
void shuffle(std::vector<Fault>& faults, std::uint64_t seed);
// One to three faults of kinds drawn first (else the many points of files would crowd out the
// rest), in runs drawn from the first and those that recover.
std::vector<Fault> draw_faults(const std::vector<PassedPoint>& points,
                               const std::vector<FaultKind>& kinds, std::uint64_t seed);

}  // namespace shardproof
