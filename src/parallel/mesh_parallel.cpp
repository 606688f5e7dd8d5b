// mesh_parallel: state in shares, and the collectives around them.
#include "parallel/mesh_parallel.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.h"
#include "base/memory_use.h"
#include "optim/grad_clip.h"
#include "parallel/mesh_gradient.h"
#include "parallel/mesh_pieces.h"
#include "parallel/mesh_seams.h"
#include "parallel/step_scalars.h"

namespace shardproof {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);
constexpr int absent = -1;

at::Tensor flat(std::int64_t count, MemoryUse use) {
  const MemoryScope scope(use);
  return at::zeros({count}, at::kFloat);
}

ElementRange intersect(ElementRange a, ElementRange b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

// Whole parameters, and the pieces of these tensor pieces.
PieceTable local_table(const PieceTable& table, const std::vector<int>& tensor_pieces) {
  std::vector<PieceSpec> pieces;
  for (const PieceSpec& piece : table.pieces()) {
    if (piece.pieces == 1 || std::ranges::find(tensor_pieces, piece.piece) != tensor_pieces.end()) {
      pieces.push_back(piece);
    }
  }
  return PieceTable(std::move(pieces));
}

// Who brings which loss leaves, by world rank: tensor rank 0 of each (dp, cp).
std::vector<LossOwner> loss_owners(const Layout& layout, int micro_batches, int sequence_pieces) {
  const auto sequence = sequence_owners(layout, sequence_pieces);
  std::vector<LossOwner> owners;
  for (int rank = 0; rank < layout.world(); ++rank) {
    const Coordinates at = coordinates(layout, rank);
    LossOwner& owner = owners.emplace_back();
    if (at.tp != 0) continue;
    owner = {owned_micro_batches(micro_batches, layout.dp, at.dp),
             sequence.owned[static_cast<std::size_t>(at.cp)]};
  }
  return owners;
}

class MeshParallel : public Plan {
 public:
  MeshParallel(Mesh& mesh, const DataParallelOptions& options)
      : options_(options),
        at_(mesh.at()),
        table_(gpt_pieces(options.shape)),
        local_(local_table(table_, tensor_owners(mesh.layout(), options.shape.tensor_pieces)
                                       .owned[static_cast<std::size_t>(at_.tp)])),
        gradient_(mesh, local_, options.micro_batches, options.shape.sequence_pieces),
        tensor_(mesh.axis(Axis::tensor)),
        data_(mesh.axis(Axis::data)),
        state_(mesh.world().split(at_.tp, at_.cp * mesh.layout().dp + at_.dp, "state",
                                  default_deadline(mesh.world()))),
        all_(mesh.world().split(0, mesh.world().rank(), "all", default_deadline(mesh.world()))),
        share_(gradient_.share()),
        owned_(options.zero == 0 ? ElementRange{0, local_.elements()} : share_),
        scalars_(options.micro_batches, options.shape.sequence_pieces,
                 loss_owners(mesh.layout(), options.micro_batches, options.shape.sequence_pieces),
                 mesh.world().rank()),
        parameters_(flat(local_.elements(), MemoryUse::parameters)),
        master_(flat(owned_.size(), MemoryUse::optimizer)),
        exp_avg_(flat(owned_.size(), MemoryUse::optimizer)),
        exp_avg_sq_(flat(owned_.size(), MemoryUse::optimizer)),
        whole_gradient_(flat(options.zero == 0 ? local_.elements() : 0, MemoryUse::gradients)),
        seams_(mesh, options.shape, views(), sink(), options.seed) {
    for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
      initial_values(options_.shape, local_.pieces()[i], {0, local_.pieces()[i].elements()},
                     options_.seed,
                     parameters_.data_ptr<float>() + local_.range(static_cast<int>(i)).lo);
    }
    std::memcpy(master_.data_ptr<float>(), parameters_.const_data_ptr<float>() + owned_.lo,
                master_.nbytes());
  }

  const PieceTable& table() const override { return table_; }
  Seams& seams(int) override { return seams_; }
  std::vector<int> micro_batches() const override { return gradient_.micro_batches(); }

  std::int64_t sum_tokens(std::int64_t mine) override {
    std::int64_t sum = mine;  // of whole micro-batches: tp and cp see the same
    all_reduce(data_, &sum, &sum, 1, Dtype::i64, ReduceOp::sum);
    return sum;
  }

  void begin_step(std::int64_t step) override {
    seams_.set_step(step);
    gradient_.clear();
    reduced_ = nullptr;
  }

  void end_micro_batch(int micro_batch, int) override { gradient_.end_micro_batch(micro_batch); }

  StepTotals reduce(const StepShare& mine) override;
  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay) override;

  void gather_parameters() override {
    if (options_.zero != 0) gather(parameters_);
  }

  std::vector<StateShard> shards(const std::string& what, bool replicated) override;
  void loaded() override;

  PlanBytes bytes() const override {
    PlanBytes bytes;
    bytes.parameters = static_cast<std::int64_t>(parameters_.nbytes());
    bytes.gradients = gradient_.live_bytes() + static_cast<std::int64_t>(whole_gradient_.nbytes());
    bytes.optimizer =
        static_cast<std::int64_t>(master_.nbytes() + exp_avg_.nbytes() + exp_avg_sq_.nbytes());
    const int ways = options_.zero == 0 ? 1 : state_->size();
    bytes.optimizer_exact = 3 * float_bytes * local_.elements() / ways;
    bytes.communication = scalars_.live_bytes();
    return bytes;
  }

  std::uint64_t bytes_sent() const override {
    return gradient_.bytes_sent() + tensor_.traffic().bytes_sent + state_->traffic().bytes_sent +
           all_->traffic().bytes_sent;
  }

 private:
  struct Held {
    ElementRange range;
    float* data = nullptr;
  };

  std::vector<at::Tensor> views();  // by global piece index
  LoneSeams::Sink sink();
  Held held(const std::string& what, bool replicated);
  bool counts_here(const PieceSpec& piece) const { return piece.pieces > 1 || at_.tp == 0; }

  // Every rank's share of a full arena reaches the ranks of its tensor coordinate, in place.
  void gather(const at::Tensor& arena) {
    float* data = arena.data_ptr<float>();
    all_gather_v(*state_, data + share_.lo, data, gradient_.state_shares(), Dtype::f32);
  }
  void share_whole_parameters(float* share);

  const DataParallelOptions options_;
  const Coordinates at_;
  const PieceTable table_;         // of the model
  const PieceTable local_;         // what this rank holds
  std::vector<int> local_index_;   // by index into table_
  std::vector<int> global_index_;  // by index into local_
  MeshGradient gradient_;
  Communicator& tensor_;
  Communicator& data_;
  const std::unique_ptr<Communicator> state_;  // the ranks of one tensor coordinate
  const std::unique_ptr<Communicator> all_;
  const ElementRange share_;
  const ElementRange owned_;  // what this rank updates: all it holds, or its share
  StepScalars scalars_;
  at::Tensor parameters_;
  at::Tensor master_, exp_avg_, exp_avg_sq_;  // of owned_
  at::Tensor whole_gradient_;                 // of all it holds, stage 0 alone
  float* reduced_ = nullptr;                  // the reduced gradient of owned_
  MeshSeams seams_;
};

std::vector<at::Tensor> MeshParallel::views() {
  local_index_.assign(table_.pieces().size(), absent);
  std::vector<at::Tensor> out(table_.pieces().size());
  for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
    const PieceSpec& piece = local_.pieces()[i];
    const int global = table_.index(piece.name, piece.piece);
    local_index_[static_cast<std::size_t>(global)] = static_cast<int>(i);
    global_index_.push_back(global);
    const ElementRange range = local_.range(static_cast<int>(i));
    out[static_cast<std::size_t>(global)] =
        parameters_.narrow(0, range.lo, range.size()).view(piece.box.shape);
  }
  return out;
}

LoneSeams::Sink MeshParallel::sink() {
  return [this](int piece_index, int sequence_piece, at::Tensor leaf, const Site&) {
    const int local = local_index_.at(static_cast<std::size_t>(piece_index));
    SP_CHECK(local != absent, "a gradient of a piece that another rank holds");
    gradient_.leaf(local, sequence_piece, leaf);
  };
}

StepTotals MeshParallel::reduce(const StepShare& mine) {
  float* share = gradient_.reduce();
  ExactSum squares;
  for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
    const ElementRange part = intersect(local_.range(static_cast<int>(i)), share_);
    if (part.size() <= 0 || !counts_here(local_.pieces()[i])) continue;
    add_squared_norms(local_, part, share + (part.lo - share_.lo), squares);
  }
  reduced_ = share;
  if (options_.zero == 0) {
    reduced_ = whole_gradient_.data_ptr<float>();
    std::copy_n(share, share_.size(), reduced_ + share_.lo);
    gather(whole_gradient_);
  }
  StepShare brought = mine;
  if (at_.tp != 0) brought.losses = {};
  return scalars_.exchange(*all_, brought, squares);
}

void MeshParallel::update(const AdamWConfig& config, const AdamWStep& at,
                          const std::vector<std::string>& no_decay) {
  SP_CHECK(reduced_ != nullptr, "update before reduce");
  for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
    const ElementRange part = intersect(local_.range(static_cast<int>(i)), owned_);
    if (part.size() <= 0) continue;
    const std::int64_t begin = part.lo - owned_.lo;
    adamw(config, at, decays(local_.pieces()[i].name, no_decay), part.size(), reduced_ + begin,
          master_.data_ptr<float>() + begin, exp_avg_.data_ptr<float>() + begin,
          exp_avg_sq_.data_ptr<float>() + begin);
  }
  std::memcpy(parameters_.data_ptr<float>() + owned_.lo, master_.const_data_ptr<float>(),
              master_.nbytes());
}

MeshParallel::Held MeshParallel::held(const std::string& what, bool replicated) {
  if (what == "param") {
    const ElementRange range = replicated ? ElementRange{0, local_.elements()} : share_;
    return {range, parameters_.data_ptr<float>() + range.lo};
  }
  const ElementRange range = replicated ? owned_ : share_;
  const std::int64_t begin = range.lo - owned_.lo;
  if (what == "grad") {
    SP_CHECK(reduced_ != nullptr, "there is no gradient before reduce");
    return {range, reduced_ + begin};
  }
  if (what == "master") return {range, master_.data_ptr<float>() + begin};
  if (what == "exp_avg") return {range, exp_avg_.data_ptr<float>() + begin};
  if (what == "exp_avg_sq") return {range, exp_avg_sq_.data_ptr<float>() + begin};
  SP_CHECK(false, "no such state: " + what);
  return {};
}

std::vector<StateShard> MeshParallel::shards(const std::string& what, bool replicated) {
  const Held all = held(what, replicated);
  std::vector<StateShard> out;
  for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
    const ElementRange piece = local_.range(static_cast<int>(i));
    const ElementRange part = intersect(piece, all.range);
    if (part.size() <= 0 || (!replicated && !counts_here(local_.pieces()[i]))) continue;
    out.push_back({what,
                   global_index_[i],
                   {part.lo - piece.lo, part.hi - piece.lo},
                   all.data + (part.lo - all.range.lo)});
  }
  return out;
}

// A loader has filled whole parameters on tensor rank 0 alone. Shares of other tensor ranks may lie
// otherwise, so all of them travel: every bit is set on one rank and 0 on the others.
void MeshParallel::share_whole_parameters(float* share) {
  std::vector<ElementRange> places;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < local_.pieces().size(); ++i) {
    if (local_.pieces()[i].pieces > 1) continue;
    places.push_back(local_.range(static_cast<int>(i)));
    count += places.back().size();
  }
  std::vector<std::int32_t> bits(static_cast<std::size_t>(count), 0);
  const auto each_place = [&](const auto& copy) {
    std::int32_t* values = bits.data();
    for (const ElementRange place : places) {
      const ElementRange part = intersect(place, share_);
      if (part.size() > 0) {
        copy(values + (part.lo - place.lo), share + (part.lo - share_.lo),
             static_cast<std::size_t>(part.size()) * sizeof(float));
      }
      values += place.size();
    }
  };
  if (at_.tp == 0) {
    each_place(
        [](std::int32_t* to, const float* from, std::size_t n) { std::memcpy(to, from, n); });
  }
  all_reduce(*all_, bits.data(), bits.data(), bits.size(), Dtype::i32, ReduceOp::bit_or);
  each_place([](const std::int32_t* from, float* to, std::size_t n) { std::memcpy(to, from, n); });
}

void MeshParallel::loaded() {
  for (const char* what : {"param", "master", "exp_avg", "exp_avg_sq"}) {
    if (tensor_.size() > 1) share_whole_parameters(held(what, false).data);
  }
  gather(parameters_);
  if (options_.zero == 0) {
    for (const at::Tensor* state : {&master_, &exp_avg_, &exp_avg_sq_}) gather(*state);
  }
}

}  // namespace

std::unique_ptr<Plan> make_mesh_parallel(Mesh& mesh, const DataParallelOptions& options) {
  return std::make_unique<MeshParallel>(mesh, options);
}

}  // namespace shardproof
