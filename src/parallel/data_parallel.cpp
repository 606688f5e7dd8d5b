// data_parallel: arenas, their shares, and the collectives between them.
#include "parallel/data_parallel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/memory_use.h"
#include "comm/canonical.h"
#include "optim/grad_clip.h"
#include "parallel/gradient_tree.h"
#include "parallel/step_scalars.h"

namespace shardproof {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

at::Tensor flat(std::int64_t count, MemoryUse use) {
  const MemoryScope scope(use);
  return at::zeros({count}, at::kFloat);
}

std::vector<std::size_t> as_counts(const std::vector<std::int64_t>& counts) {
  return {counts.begin(), counts.end()};
}

// Every rank runs all sequence pieces of its micro-batches.
std::vector<LossOwner> loss_owners(const canonical::LeafOwners& owners, int sequence_pieces) {
  std::vector<int> pieces(static_cast<std::size_t>(sequence_pieces));
  std::iota(pieces.begin(), pieces.end(), 0);
  std::vector<LossOwner> result;
  for (const auto& owned : owners.owned) result.push_back({owned, pieces});
  return result;
}

class DataParallel : public Plan {
 public:
  DataParallel(Mesh& mesh, const DataParallelOptions& options)
      : comm_(mesh.axis(Axis::data)),
        options_(options),
        table_(gpt_pieces(options.shape)),
        owners_(canonical::LeafOwners::contiguous(options.micro_batches, comm_.size())),
        mine_(owners_.owned[static_cast<std::size_t>(comm_.rank())]),
        shares_(as_counts(table_.share_counts(comm_.size()))),
        share_(table_.share(comm_.size(), comm_.rank())),
        owned_(options.zero == 0 ? ElementRange{0, table_.elements()} : share_),
        receive_bytes_(canonical::storage_bytes(owners_, shares_, comm_.rank(), Dtype::f32)),
        scalars_(options.micro_batches, options.shape.sequence_pieces,
                 loss_owners(owners_, options.shape.sequence_pieces), comm_.rank()),
        tree_(table_, options.micro_batches, options.shape.sequence_pieces),
        parameters_(flat(table_.elements(), MemoryUse::parameters)),
        master_(flat(owned_.size(), MemoryUse::optimizer)),
        exp_avg_(flat(owned_.size(), MemoryUse::optimizer)),
        exp_avg_sq_(flat(owned_.size(), MemoryUse::optimizer)),
        seams_(options.shape, views(), sink(), options.seed) {
    if (receive_bytes_ > arena_bytes()) {
      received_ =
          flat(static_cast<std::int64_t>(receive_bytes_ / sizeof(float)), MemoryUse::communication);
    }
    if (mine_.empty()) no_leaves_ = flat(table_.elements(), MemoryUse::gradients);
    initialise();
  }

  const PieceTable& table() const override { return table_; }
  Seams& seams(int) override { return seams_; }
  std::vector<int> micro_batches() const override { return mine_; }

  std::int64_t sum_tokens(std::int64_t mine) override {
    std::int64_t sum = mine;
    all_reduce(comm_, &sum, &sum, 1, Dtype::i64, ReduceOp::sum);
    return sum;
  }

  void begin_step(std::int64_t step) override {
    seams_.set_step(step);
    tree_.clear();
    reduced_ = nullptr;
  }

  void end_micro_batch(int micro_batch, int) override { tree_.end_micro_batch(micro_batch); }

  StepTotals reduce(const StepShare& mine) override {
    reduce_gradients();
    ExactSum squares;
    add_squared_norms(table_, share_, reduced_ + share_.lo, squares);
    return scalars_.exchange(comm_, mine, squares);
  }

  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay) override {
    SP_CHECK(reduced_ != nullptr, "update before reduce");
    for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
      const ElementRange part = intersect(table_.range(static_cast<int>(i)), owned_);
      if (part.size() <= 0) continue;
      const std::int64_t local = part.lo - owned_.lo;
      adamw(config, at, decays(table_.pieces()[i].name, no_decay), part.size(), reduced_ + part.lo,
            master_.data_ptr<float>() + local, exp_avg_.data_ptr<float>() + local,
            exp_avg_sq_.data_ptr<float>() + local);
    }
    std::memcpy(parameters_.data_ptr<float>() + owned_.lo, master_.const_data_ptr<float>(),
                master_.nbytes());
  }

  void gather_parameters() override {
    if (options_.zero != 0) gather(parameters_);
  }

  std::vector<StateShard> shards(const std::string& what, bool replicated) override;
  void loaded() override;

  PlanBytes bytes() const override {
    PlanBytes bytes;
    bytes.parameters = static_cast<std::int64_t>(parameters_.nbytes());
    bytes.gradients = tree_.live_bytes();
    if (no_leaves_.defined()) bytes.gradients += static_cast<std::int64_t>(no_leaves_.nbytes());
    bytes.optimizer =
        static_cast<std::int64_t>(master_.nbytes() + exp_avg_.nbytes() + exp_avg_sq_.nbytes());
    const int ways = options_.zero == 0 ? 1 : comm_.size();
    bytes.optimizer_exact = 3 * float_bytes * table_.elements() / ways;
    bytes.communication = scalars_.live_bytes();
    if (received_.defined()) bytes.communication += static_cast<std::int64_t>(received_.nbytes());
    return bytes;
  }

  std::uint64_t bytes_sent() const override { return comm_.traffic().bytes_sent; }

 private:
  // Elements [first, ...) of the arena that lie at `data`.
  struct Held {
    ElementRange range;
    float* data = nullptr;
  };

  static ElementRange intersect(ElementRange a, ElementRange b) {
    return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  }

  std::vector<at::Tensor> views() {
    std::vector<at::Tensor> out;
    for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
      const ElementRange range = table_.range(static_cast<int>(i));
      out.push_back(
          parameters_.narrow(0, range.lo, range.size()).view(table_.pieces()[i].box.shape));
    }
    return out;
  }

  LoneSeams::Sink sink() {
    return [this](int piece_index, int sequence_piece, at::Tensor leaf, const Site&) {
      tree_.leaf(piece_index, sequence_piece, leaf);
    };
  }

  void initialise() {
    for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
      const PieceSpec& piece = table_.pieces()[i];
      float* out = parameters_.data_ptr<float>() + table_.range(static_cast<int>(i)).lo;
      for (std::int64_t e = 0; e < piece.elements(); ++e) {
        out[e] = initial_value(options_.shape, piece, e, options_.seed);
      }
    }
    std::memcpy(master_.data_ptr<float>(), parameters_.const_data_ptr<float>() + owned_.lo,
                master_.nbytes());
  }

  std::size_t arena_bytes() const {
    return static_cast<std::size_t>(table_.elements()) * sizeof(float);
  }

  // For what other ranks send: a gradient arena is idle by then.
  std::span<std::byte> receive_storage() {
    if (receive_bytes_ == 0) return {};
    const at::Tensor& tensor = received_.defined() ? received_ : tree_.spare();
    return {reinterpret_cast<std::byte*>(tensor.data_ptr<float>()), tensor.nbytes()};
  }

  void reduce_gradients();
  Held held(const std::string& what, bool replicated);

  // Every rank's share of a full arena reaches all ranks, in place.
  void gather(const at::Tensor& arena) {
    float* data = arena.data_ptr<float>();
    all_gather_v(comm_, data + share_.lo, data, shares_, Dtype::f32);
  }

  Communicator& comm_;
  const DataParallelOptions options_;
  const PieceTable table_;
  const canonical::LeafOwners owners_;
  const std::vector<int> mine_;            // micro-batches
  const std::vector<std::size_t> shares_;  // elements of every rank's share of the arena
  const ElementRange share_;               // this rank's
  const ElementRange owned_;               // what this rank updates: all of it, or its share
  const std::size_t receive_bytes_;        // of the subtrees that others send
  StepScalars scalars_;
  GradientTree tree_;
  at::Tensor parameters_;
  at::Tensor master_, exp_avg_, exp_avg_sq_;  // of owned_
  at::Tensor no_leaves_;                      // takes the sum on a rank without micro-batches
  at::Tensor received_;                       // where they do not fit into an arena
  float* reduced_ = nullptr;                  // arena whose owned_ part holds the reduced gradient
  LoneSeams seams_;
};

void DataParallel::reduce_gradients() {
  std::vector<const void*> subtrees;
  for (const auto& [node, arena] : tree_.subtrees()) subtrees.push_back(arena.const_data_ptr());
  SP_CHECK_EQ(subtrees.size(), owners_.subtrees(comm_.rank()).size());
  // In place: the sum of the own share overwrites it in this rank's first subtree.
  const at::Tensor& target = subtrees.empty() ? no_leaves_ : tree_.subtrees().begin()->second;
  reduced_ = target.data_ptr<float>();
  canonical::reduce_scatter(comm_, owners_, subtrees, shares_, Dtype::f32, reduced_ + share_.lo,
                            receive_storage());
  if (options_.zero == 0) gather(target);
}

DataParallel::Held DataParallel::held(const std::string& what, bool replicated) {
  if (what == "param") {
    const ElementRange range = replicated ? ElementRange{0, table_.elements()} : share_;
    return {range, parameters_.data_ptr<float>() + range.lo};
  }
  const ElementRange range = replicated ? owned_ : share_;
  if (what == "grad") {
    SP_CHECK(reduced_ != nullptr, "there is no gradient before reduce");
    return {range, reduced_ + range.lo};
  }
  const std::int64_t local = range.lo - owned_.lo;
  if (what == "master") return {range, master_.data_ptr<float>() + local};
  if (what == "exp_avg") return {range, exp_avg_.data_ptr<float>() + local};
  if (what == "exp_avg_sq") return {range, exp_avg_sq_.data_ptr<float>() + local};
  SP_CHECK(false, "no such state: " + what);
  return {};
}

std::vector<StateShard> DataParallel::shards(const std::string& what, bool replicated) {
  const Held all = held(what, replicated);
  std::vector<StateShard> out;
  for (std::size_t i = 0; i < table_.pieces().size(); ++i) {
    const ElementRange piece = table_.range(static_cast<int>(i));
    const ElementRange part = intersect(piece, all.range);
    if (part.size() <= 0) continue;
    out.push_back({what,
                   static_cast<int>(i),
                   {part.lo - piece.lo, part.hi - piece.lo},
                   all.data + (part.lo - all.range.lo)});
  }
  return out;
}

// A loader may have filled only the blocks that are this rank's alone: the rest comes from the
// ranks that own it.
void DataParallel::loaded() {
  gather(parameters_);
  if (options_.zero == 0) {
    for (const at::Tensor* state : {&master_, &exp_avg_, &exp_avg_sq_}) gather(*state);
  }
}

}  // namespace

std::unique_ptr<Plan> make_data_parallel(Mesh& mesh, const DataParallelOptions& options) {
  return std::make_unique<DataParallel>(mesh, options);
}

}  // namespace shardproof
