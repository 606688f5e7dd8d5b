// The torch-free modules alone: four thread ranks add floats in canonical order; the bits are those
// of one rank. Prints one line; exit 0 only when the bits are equal.
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/canonical.h"
#include "comm/thread_communicator.h"

namespace {

std::vector<float> sum_on(int ranks) {
  constexpr int leaves = 6;
  constexpr std::size_t count = 1000;
  shardproof::ThreadWorld world(ranks);
  const auto owners = shardproof::canonical::LeafOwners::contiguous(leaves, ranks);
  std::vector<std::vector<float>> results(ranks, std::vector<float>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto comm = world.communicator(rank);
      std::vector<std::vector<float>> sums;
      for (const shardproof::Node node : owners.subtrees(rank)) {
        std::map<shardproof::Node, std::vector<float>> parts;
        for (int leaf = node.lo; leaf < node.hi; ++leaf) {
          std::vector<float> values(count);
          for (std::size_t i = 0; i < count; ++i) values[i] = 1.0f / (1.0f + leaf * 7.0f + i);
          parts[{leaf, leaf + 1}] = values;
        }
        sums.push_back(*shardproof::tree_sum(parts, node.lo, node.hi, [](auto left, auto& right) {
          for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
          return left;
        }));
      }
      std::vector<const void*> subtrees;
      for (const auto& sum : sums) subtrees.push_back(sum.data());
      shardproof::canonical::all_reduce(*comm, owners, subtrees, count, shardproof::Dtype::f32,
                                        results[rank].data());
    });
  }
  for (auto& thread : threads) thread.join();
  return results[ranks - 1];
}

}  // namespace

int main() {
  const auto one = sum_on(1);
  const auto four = sum_on(4);
  const bool equal = std::memcmp(one.data(), four.data(), one.size() * sizeof(float)) == 0;
  std::printf("canonical sum of 6 leaves on 1 and 4 ranks: %s\n", equal ? "equal" : "different");
  return equal ? 0 : 1;
}
