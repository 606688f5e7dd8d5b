// stack: wraps a backend's communicator in the decorators, in the one fixed order, outermost first:
// outer -> recorded -> wire -> delayed -> backend, where outer and wire are what the caller puts
// there (faults). Later guards take their places here:
// outer -> recorded -> watched -> verified -> wire -> delayed -> backend.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/delayed_communicator.h"
#include "comm/recorded_communicator.h"

namespace shardproof {

using Wrap = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;

struct StackOptions {
  std::shared_ptr<FlightRecorder> recorder;      // null: not recorded
  std::optional<CommunicationDelay> delay;
  Wrap outer = nullptr;
  Wrap wire = nullptr;
  bool checked = false;  // what arrives is compared with what was sent
};

std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> backend,
                                   const StackOptions& options);

}  // namespace shardproof
