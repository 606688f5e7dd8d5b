// rank_pool: see the header.
#include "harness/rank_pool.h"

#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

// A vector of threads must be joined whatever happens: nothing but an Error leaves here.
template <typename Body>
void start(std::vector<std::thread>& threads, int rank, const Body& body) {
  try {
    threads.emplace_back(body);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::environment, "thread of rank " + std::to_string(rank),
                std::string("cannot be started: ") + error.what(), rank);
  }
}

}  // namespace

void run_ranks(int size, const std::function<void(int rank)>& body,
               const std::function<void()>& on_failure, std::vector<std::string>* notes) {
  SP_CHECK_LT(0, size);
  std::mutex mutex;
  std::exception_ptr cause;
  std::string cause_text;
  bool cause_is_revoked = false;

  const auto failed = [&](int rank, const std::exception& error) {
    std::string text = "rank " + std::to_string(rank) + ": " + error.what();
    const auto* known = dynamic_cast<const Error*>(&error);
    const bool revoked = known != nullptr && known->kind() == ErrorKind::revoked;
    {
      const std::lock_guard lock(mutex);
      const bool first = cause == nullptr;
      if (first || (cause_is_revoked && !revoked)) {
        cause = std::current_exception();
        cause_is_revoked = revoked;
        text.swap(cause_text);
      }
      if (!first) {
        if (notes) notes->push_back(text);
        return;
      }
    }
    on_failure();  // without the lock: the others may fail because of it
  };
  const auto run = [&](int rank) {
    try {
      body(rank);
    } catch (const std::exception& error) {
      failed(rank, error);
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    try {
      start(threads, rank, [&run, rank] { run(rank); });
    } catch (const Error& error) {
      failed(rank, error);
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (cause) std::rethrow_exception(cause);
}

}  // namespace shardproof
