// stack: the one place where decorators are put together.
#include "comm/stack.h"

#include <utility>

#include "comm/checked_communicator.h"
#include "comm/watched_communicator.h"

namespace shardproof {

std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> backend,
                                   const StackOptions& options) {
  std::unique_ptr<Communicator> comm = std::move(backend);
  if (options.delay) {
    comm = std::make_unique<DelayedCommunicator>(std::move(comm), *options.delay);
  }
  if (options.wire) comm = options.wire(std::move(comm));
  if (options.checked) comm = make_checked(std::move(comm));
  if (options.verify) {
    comm = std::make_unique<VerifiedCommunicator>(std::move(comm), *options.verify);
  }
  if (options.watch) {
    comm = std::make_unique<WatchedCommunicator>(std::move(comm), options.watch);
  }
  if (options.recorder) {
    comm = std::make_unique<RecordedCommunicator>(std::move(comm), options.recorder);
  }
  if (options.outer) comm = options.outer(std::move(comm));
  return comm;
}

}  // namespace shardproof
