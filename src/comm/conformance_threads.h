// conformance_threads: runs a body on every rank of a fresh world of threads. For tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/thread_communicator.h"

namespace shardproof::conformance {

// An exception on one rank fails the test and revokes the world, so that the others end too.
inline void own_on_threads(ThreadWorld& world,
                           const std::function<void(std::unique_ptr<Communicator>)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&world, &body, rank] {
      try {
        body(world.communicator(rank));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
        world.revoke_all();
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

inline void on_threads(ThreadWorld& world, const std::function<void(Communicator&)>& body) {
  own_on_threads(world, [&](std::unique_ptr<Communicator> comm) { body(*comm); });
}

inline void on_threads(int ranks, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(ranks, std::chrono::seconds(20));
  on_threads(world, body);
}

}  // namespace shardproof::conformance
