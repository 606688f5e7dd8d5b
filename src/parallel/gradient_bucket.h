// gradient_bucket: one bucket of native data parallelism: the parameters, gradients and optimizer
// state of its pieces, and the all-reduce of its gradient, under way or done.
// Collective: launch(), finish(). Thread rule: one rank's thread; the communication thread adds
// into the gradient between launch() and finish().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "parallel/optimizer_shard.h"

namespace shardproof {

class GradientBucket {
 public:
  // leaves(name): how many gradients of that parameter a step brings on this rank.
  GradientBucket(PieceTable table, const std::function<int(const std::string&)>& leaves);

  const PieceTable& table() const { return table_; }
  float* parameters() { return parameters_.data_ptr<float>(); }
  at::Tensor view(int piece_index) const;  // of a parameter, in its shape
  std::span<float> gradient();
  void start_optimizer(const OptimizerOffload& offload);  // masters from the parameters
  OptimizerShard& optimizer() { return *optimizer_; }
  const OptimizerShard& optimizer() const { return *optimizer_; }

  void begin_step();
  void add(int piece_index, const at::Tensor& leaf);
  bool ready() const { return missing_ == 0; }
  std::vector<std::string> missing() const;  // names of parameters that lack a gradient

  // Starts the sum over ranks, on the communication thread or inline.
  void launch(Communicator& comm, bool overlap);
  void finish(Communicator& comm);

  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay);

 private:
  const PieceTable table_;
  std::vector<int> leaves_;  // by piece
  at::Tensor parameters_, gradient_;
  std::optional<OptimizerShard> optimizer_;
  std::vector<int> arrived_;  // leaves, by piece
  std::int64_t missing_ = 0;  // leaves, of all pieces
  bool launched_ = false;
  std::unique_ptr<Work> work_;
};

}  // namespace shardproof
