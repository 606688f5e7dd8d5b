// stack: wraps a backend's communicator in the decorators, in the one fixed order, outermost first:
// recorded -> delayed -> backend. Later guards and faults take their places here:
// [faulty_call] -> recorded -> watched -> verified -> [faulty_wire, delayed] -> backend.
#pragma once

#include <memory>
#include <optional>

#include "comm/delayed_communicator.h"
#include "comm/recorded_communicator.h"

namespace shardproof {

struct StackOptions {
  std::shared_ptr<FlightRecorder> recorder;      // null: not recorded
  std::optional<CommunicationDelay> delay;
};

std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> backend,
                                   const StackOptions& options);

}  // namespace shardproof
