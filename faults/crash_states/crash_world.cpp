// crash_world: see crash_world.h.
#include "faults/crash_states/crash_world.h"

#include <atomic>

#include "comm/forwarding_communicator.h"

namespace shardproof::crash {
namespace {

// Counts the collectives that its rank has completed. What a rank asks for after one comes after
// all that the others asked for before it: each collective of a save waits for all ranks.
class CountingCommunicator : public ForwardingCommunicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, std::atomic<int>& count)
      : ForwardingCommunicator(std::move(inner)), count_(count) {}
  void run(const Call& call, Deadline deadline) override {
    ForwardingCommunicator::run(call, deadline);
    ++count_;
  }

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override {
    return child;
  }

 private:
  std::atomic<int>& count_;
};

constexpr int epochs_of_a_save = 1000;

}  // namespace

testing::State small_state(std::uint64_t seed) {
  std::vector<PieceSpec> pieces = cut("a.weight", {30, 50}, 0, 1);
  pieces.push_back(cut("b.bias", {3}, -1, 1)[0]);
  return testing::State(pieces, {"param", "exp_avg"}, seed);
}

CheckpointFacts facts_of(const std::string& id) {
  return testing::small_facts(std::stoll(id.substr(id.rfind('-') + 1)));
}

void save_plainly(std::unique_ptr<Communicator> comm, Storage& storage, const std::string& id,
                  testing::State& state) {
  testing::save_small(storage, *comm, id, state, facts_of(id));
}

CrashWorld::CrashWorld() : memory_(memory_storage()), journal_(std::make_shared<Journal>()) {}

std::shared_ptr<Storage> CrashWorld::storage() {
  return recorded(memory_, journal_);
}

bool CrashWorld::save(const std::string& id, std::uint64_t seed, int ranks,
                      const RankSave& rank_save) {
  expect(id, seed);
  ThreadWorld world(ranks, std::chrono::seconds(120));
  std::vector<std::atomic<int>> epochs(static_cast<std::size_t>(ranks));
  std::atomic<int> failures{0};
  std::exception_ptr surprise;
  std::mutex mutex;
  const auto body = [&](int rank) {
    auto& epoch = epochs[static_cast<std::size_t>(rank)];
    // One rank needs no epochs: its operations are in order, also beside other writers'.
    const auto disk = recorded(memory_, journal_, rank, ranks > 1 ? &epoch : nullptr);
    try {
      testing::State state = small_state(seed);
      rank_save(std::make_unique<CountingCommunicator>(world.communicator(rank), epoch), *disk, id,
                state);
    } catch (const Error&) {
      ++failures;
    } catch (...) {
      const std::scoped_lock lock(mutex);
      surprise = std::current_exception();
      world.revoke_all();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  if (surprise) std::rethrow_exception(surprise);
  if (ranks > 1) journal_->set_epoch(journal_->epoch() + epochs_of_a_save);
  if (failures == 0) promise(id);
  return failures == 0;
}

void CrashWorld::expect(const std::string& id, std::uint64_t seed) {
  expected_[id].insert(seed);
}

void CrashWorld::promise(const std::string& id) {
  promised_.insert(id);
  journal_->note(Operation::Kind::promise, id);
}

void CrashWorld::release(const std::string& id) {
  promised_.erase(id);
  journal_->note(Operation::Kind::release, id);
}

void CrashWorld::settle() {
  given_ = promised_;
  journal_->note(Operation::Kind::settle);
  crash_from_here();
  journal_->set_epoch(journal_->epoch() + epochs_of_a_save);
}

void CrashWorld::crash_from_here() {
  journal_->note(Operation::Kind::crash_from);
}

bool CrashWorld::interrupted(int at, Do what, bool dead, const std::function<void()>& body) {
  std::atomic<int> count{0};
  journal_->set_hook([&](const Operation&) {
    const int number = count++;
    if (number == at) {
      crash_from_here();
      return what;
    }
    return number > at && dead ? Do::fail : Do::it;
  });
  body();
  journal_->set_hook({});
  return count > at;
}

bool CrashWorld::interleaved(int at, const std::function<void()>& other,
                             const std::function<void()>& body) {
  std::atomic<int> count{0};
  journal_->set_hook([&](const Operation&) {
    if (count++ == at) {
      crash_from_here();
      other();  // asks in its turn, with a count beyond `at`
    }
    return Do::it;
  });
  body();
  journal_->set_hook({});
  return count > at;
}

}  // namespace shardproof::crash
