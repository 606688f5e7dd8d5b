// batch_tree: a canonical sum over micro-batches: arenas of whole micro-batches, or of subtrees of
// them, meet in tree(M). Siblings are added as soon as both are there, so at most 1 + log2(n)
// arenas live at once when n leaves arrive ascending and contiguous. Arenas are kept for the next
// step. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/tree.h"

namespace shardproof {

class BatchTree {
 public:
  BatchTree(std::int64_t elements, int micro_batches);

  at::Tensor take();                            // an arena whose values are undefined
  void add(int micro_batch, at::Tensor arena);  // taken here, holds the micro-batch's gradient
  void add(Node node, at::Tensor arena);        // the sum of a subtree
  void give_back(at::Tensor arena);             // taken here, not needed after all
  // The maximal subtrees of what was added since clear(); flat fp32.
  const std::map<Node, at::Tensor>& subtrees() const { return done_; }
  void clear();
  // An arena whose contents nobody needs, for the caller's use until the next take or clear().
  const at::Tensor& spare();
  std::int64_t live_bytes() const;  // of all arenas, those taken or kept for reuse too

 private:
  std::int64_t elements_;
  int micro_batches_;
  std::int64_t made_ = 0;
  std::map<Node, at::Tensor> done_;
  std::vector<at::Tensor> free_;
};

}  // namespace shardproof
