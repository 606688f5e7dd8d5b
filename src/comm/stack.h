// stack: wraps a backend's communicator in the decorators, in the one fixed order, outermost first:
// outer -> recorded -> watched -> verified -> checked -> wire -> delayed -> backend, where outer
// and wire are what the caller puts there (faults).
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/delayed_communicator.h"
#include "comm/rank_watch.h"
#include "comm/recorded_communicator.h"
#include "comm/verified_communicator.h"

namespace shardproof {

using Wrap = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;

struct StackOptions {
  std::shared_ptr<FlightRecorder> recorder;  // null: not recorded
  std::optional<CommunicationDelay> delay;
  Wrap outer = nullptr;
  Wrap wire = nullptr;
  std::shared_ptr<RankWatch> watch = nullptr;  // null: not watched; needs the recorder it watches
  std::optional<VerifyOptions> verify = std::nullopt;  // nothing: not verified
  bool checked = false;  // what arrives is compared with what was sent
};

// Collective over the ranks of `backend`.
std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> backend,
                                   const StackOptions& options);

}  // namespace shardproof
