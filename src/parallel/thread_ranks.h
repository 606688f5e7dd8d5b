// thread_ranks: for the tests of src: runs a body on every rank of a world of threads and throws
// the first failure (by time) when all have ended. (The harness has its rank pool.)
#pragma once

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/thread_communicator.h"

namespace shardproof {

template <typename Body>
void on_thread_ranks(int size, const Body& body) {
  ThreadWorld world(size, std::chrono::seconds(20));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);  // as in a real run: a rank's kernels stay on its thread
      try {
        const auto comm = world.communicator(rank);
        body(*comm);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        world.revoke_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace shardproof
