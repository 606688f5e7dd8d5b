// offload_traffic: what moved between the device and where state is offloaded to, on one rank,
// since the start. Torch-free. Thread rule: values.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace shardproof {

struct OffloadTraffic {
  std::int64_t bytes_in = 0;   // onto the device
  std::int64_t bytes_out = 0;  // off it
  std::int64_t calls = 0;
  Duration time{};

  OffloadTraffic& operator+=(const OffloadTraffic& other) {
    bytes_in += other.bytes_in;
    bytes_out += other.bytes_out;
    calls += other.calls;
    time += other.time;
    return *this;
  }
  OffloadTraffic& operator-=(const OffloadTraffic& other) {
    bytes_in -= other.bytes_in;
    bytes_out -= other.bytes_out;
    calls -= other.calls;
    time -= other.time;
    return *this;
  }
};

// Views (offload.h) are not part of a step: they serve checkpoints and traces.
struct OffloadLedger {
  OffloadTraffic optimizer, parameters, views;

  // What this has more than `before`.
  OffloadLedger since(const OffloadLedger& before) const {
    OffloadLedger out = *this;
    out.optimizer -= before.optimizer;
    out.parameters -= before.parameters;
    out.views -= before.views;
    return out;
  }
};

}  // namespace shardproof
