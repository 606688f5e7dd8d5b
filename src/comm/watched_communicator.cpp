// watched_communicator: what a wait throws when it was ended.
#include "comm/watched_communicator.h"

#include <utility>

#include "base/check.h"

namespace shardproof {

namespace {

// The verdict in the place of what a given-up wait says by itself.
template <typename Wait>
auto judged(const RankWatch& watch, const Wait& wait) {
  const Duration begin = Clock::real().now();
  try {
    return wait();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::revoked) throw;
    // Another rank may have been told first, and have revoked the group: ours is on its way.
    const bool long_enough = Clock::real().now() - begin >= watch.look();
    const auto verdict =
        long_enough ? watch.verdict_within(std::chrono::milliseconds(500)) : watch.verdict();
    if (verdict) throw *verdict;
    throw;
  }
}

class WatchedWork : public Work {
 public:
  WatchedWork(std::unique_ptr<Work> inner, std::shared_ptr<RankWatch> watch)
      : inner_(std::move(inner)), watch_(std::move(watch)) {}
  void wait(Deadline deadline) override {
    judged(*watch_, [&] { inner_->wait(deadline); });
  }
  bool done() const override { return inner_->done(); }

 private:
  const std::unique_ptr<Work> inner_;
  const std::shared_ptr<RankWatch> watch_;
};

}  // namespace

WatchedCommunicator::WatchedCommunicator(std::unique_ptr<Communicator> inner,
                                         std::shared_ptr<RankWatch> watch)
    : ForwardingCommunicator(std::move(inner)), watch_(std::move(watch)) {
  SP_CHECK(watch_ != nullptr, "a watched communicator needs a watch");
  watch_->join(*this);
}

WatchedCommunicator::~WatchedCommunicator() {
  watch_->leave(*this);
}

void WatchedCommunicator::run(const Call& call, Deadline deadline) {
  judged(*watch_, [&] { inner().run(call, deadline); });
}

std::unique_ptr<Work> WatchedCommunicator::start(const Call& call, Keep keep) {
  return judged(*watch_, [&]() -> std::unique_ptr<Work> {
    return std::make_unique<WatchedWork>(inner().start(call, std::move(keep)), watch_);
  });
}

std::unique_ptr<Communicator> WatchedCommunicator::split(int color, int key,
                                                         const std::string& label,
                                                         Deadline deadline) {
  return judged(*watch_,
                [&] { return ForwardingCommunicator::split(color, key, label, deadline); });
}

std::unique_ptr<Communicator> WatchedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return std::make_unique<WatchedCommunicator>(std::move(child), watch_);
}

}  // namespace shardproof
