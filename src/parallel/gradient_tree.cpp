// gradient_tree: leaves meet their siblings as they arrive.
#include "parallel/gradient_tree.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/memory_use.h"
#include "comm/canonical.h"

namespace shardproof {
namespace {

// out = left + right; `out` overlaps neither.
void add(float* out, const at::Tensor& left, const at::Tensor& right) {
  canonical::add(out, left.const_data_ptr<float>(), right.const_data_ptr<float>(),
                 static_cast<std::size_t>(left.numel()), Dtype::f32);
}

}  // namespace

GradientTree::GradientTree(const PieceTable& table, int micro_batches, int sequence_pieces)
    : table_(table),
      micro_batches_(micro_batches),
      sequence_pieces_(sequence_pieces),
      partials_(table.pieces().size()),
      complete_(table.pieces().size(), false) {}

void GradientTree::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient) {
  const auto piece = static_cast<std::size_t>(piece_index);
  SP_CHECK_EQ(gradient.numel(), table_.range(piece_index).size());
  SP_CHECK(gradient.is_contiguous() && gradient.scalar_type() == at::kFloat,
           "a gradient leaf must be contiguous fp32");
  SP_CHECK(!complete_[piece], "a leaf arrived twice for " + table_.pieces()[piece].name);
  if (!current_.defined()) current_ = take_arena();

  std::vector<Partial>& waiting = partials_[piece];
  Partial mine{Node{sequence_piece, sequence_piece + 1}, gradient};
  while (const auto other = sibling(mine.node, sequence_pieces_)) {
    const auto found = std::find_if(waiting.begin(), waiting.end(),
                                    [&](const Partial& part) { return part.node == *other; });
    if (found == waiting.end()) {
      waiting.push_back(std::move(mine));
      return;
    }
    const bool mine_is_left = mine.node.lo < other->lo;
    const at::Tensor& left = mine_is_left ? mine.sum : found->sum;
    const at::Tensor& right = mine_is_left ? found->sum : mine.sum;
    Partial joined{parent(mine.node, sequence_pieces_), {}};
    if (!sibling(joined.node, sequence_pieces_)) {  // the root: straight into its place
      add(slot(piece_index), left, right);
      waiting.clear();
      complete_[piece] = true;
      return;
    }
    joined.sum = at::empty({gradient.numel()}, at::kFloat);
    add(joined.sum.data_ptr<float>(), left, right);
    waiting.erase(found);
    mine = std::move(joined);
  }
  std::memcpy(slot(piece_index), mine.sum.const_data_ptr<float>(), mine.sum.nbytes());
  complete_[piece] = true;
}

// A sum some of whose leaves never came: joins what is there, absent leaves skipped.
void GradientTree::finish_piece(int piece_index) {
  const auto piece = static_cast<std::size_t>(piece_index);
  std::map<Node, at::Tensor> parts;
  for (Partial& part : partials_[piece]) parts.emplace(part.node, std::move(part.sum));
  partials_[piece].clear();
  const auto sum =
      tree_sum(parts, 0, sequence_pieces_, [](const at::Tensor& left, const at::Tensor& right) {
        at::Tensor out = at::empty({left.numel()}, at::kFloat);
        add(out.data_ptr<float>(), left, right);
        return out;
      });
  SP_CHECK(sum.has_value(), "no gradient arrived for " + table_.pieces()[piece].name);
  std::memcpy(slot(piece_index), sum->const_data_ptr<float>(), sum->nbytes());
}

void GradientTree::end_micro_batch(int micro_batch) {
  SP_CHECK_LE(0, micro_batch);
  SP_CHECK_LT(micro_batch, micro_batches_);
  if (!current_.defined()) current_ = take_arena();
  for (std::size_t i = 0; i < complete_.size(); ++i) {
    if (!complete_[i]) finish_piece(static_cast<int>(i));
    complete_[i] = false;
  }
  Node node{micro_batch, micro_batch + 1};
  at::Tensor sum = std::exchange(current_, {});
  while (const auto other = sibling(node, micro_batches_)) {
    const auto found = done_.find(*other);
    if (found == done_.end()) break;
    at::Tensor left = found->second;
    done_.erase(found);
    if (node.lo < other->lo) std::swap(left, sum);
    canonical::add_into(left.data_ptr<float>(), sum.const_data_ptr<float>(),
                        static_cast<std::size_t>(table_.elements()), Dtype::f32);
    free_.push_back(std::move(sum));
    sum = std::move(left);
    node = parent(node, micro_batches_);
  }
  SP_CHECK(done_.emplace(node, std::move(sum)).second, "a micro-batch ended twice");
}

void GradientTree::clear() {
  for (auto& [node, arena] : done_) free_.push_back(std::move(arena));
  done_.clear();
  if (current_.defined()) free_.push_back(std::exchange(current_, {}));
  for (auto& waiting : partials_) waiting.clear();
  std::fill(complete_.begin(), complete_.end(), false);
}

std::int64_t GradientTree::live_bytes() const {
  std::int64_t arenas = static_cast<std::int64_t>(done_.size() + free_.size());
  if (current_.defined()) ++arenas;
  return arenas * table_.elements() * static_cast<std::int64_t>(sizeof(float));
}

const at::Tensor& GradientTree::spare() {
  if (free_.empty()) free_.push_back(take_arena());
  return free_.back();
}

at::Tensor GradientTree::take_arena() {
  if (free_.empty()) {
    const MemoryScope scope(MemoryUse::gradients);
    return at::empty({table_.elements()}, at::kFloat);
  }
  at::Tensor arena = std::move(free_.back());
  free_.pop_back();
  return arena;
}

float* GradientTree::slot(int piece_index) {
  return current_.data_ptr<float>() + table_.range(piece_index).lo;
}

}  // namespace shardproof
