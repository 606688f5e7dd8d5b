// mesh_parallel: units of state, and who hands what to whom.
#include "parallel/mesh_parallel.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "parallel/mesh_pieces.h"
#include "parallel/mesh_seams.h"
#include "parallel/parameter_flow.h"
#include "parallel/parameter_placement.h"
#include "parallel/stage_link.h"
#include "parallel/step_scalars.h"
#include "parallel/tied_weights.h"
#include "parallel/unit.h"

namespace shardproof {
namespace {

constexpr std::int64_t float_bytes = sizeof(float);

std::int64_t largest(const std::vector<UnitSpec>& specs) {
  std::int64_t elements = 0;
  for (const UnitSpec& spec : specs) elements = std::max(elements, spec.table.elements());
  return elements;
}

class MeshParallel final : public Plan {
 public:
  MeshParallel(Mesh& mesh, const PlanOptions& options)
      : options_(options),
        zero_(mesh.layout().zero),
        eager_(zero_ >= 2 || options.native),
        groups_(mesh, zero_ == 3),
        optimizer_store_(make_offload_store(options.offload.optimizer, options.offload.directory,
                                            mesh.world().rank())),
        parameter_store_(make_offload_store(options.offload.parameters, options.offload.directory,
                                            mesh.world().rank())),
        table_(gpt_pieces(options.shape)),
        mine_(owned_micro_batches(mesh.layout(), options.micro_batches, mesh.at().dp)),
        layers_(
            chunk_layers(mesh.layout(), mesh.at().pp, options.shape.layers, options.stage_layers)),
        scalars_(options.micro_batches, options.shape.sequence_pieces,
                 loss_owners(mesh.layout(), options.micro_batches, options.shape.sequence_pieces),
                 mesh.world().rank()) {
    make_units(mesh);
    make_seams(mesh);
    if (zero_ == 3) make_flow();
    check_parameters(mesh.layout(), options.shape, layers_, mesh.world().rank(), held_pieces());
  }

  const PieceTable& table() const override { return table_; }
  std::vector<int> micro_batches() const override { return mine_; }
  int chunks() const override { return static_cast<int>(seams_.size()); }
  Seams& seams(int chunk) override { return *seams_.at(static_cast<std::size_t>(chunk)); }
  Schedule schedule() const override {
    return link_ ? stage_schedule(groups_.layout(), groups_.at().pp, mine_) : Plan::schedule();
  }

  std::int64_t sum_tokens(std::int64_t mine) override {
    std::int64_t sum = mine;  // of whole micro-batches: tp, cp and pp see the same
    all_reduce(groups_.data(), &sum, &sum, 1, Dtype::i64, ReduceOp::sum);
    return sum;
  }

  void begin_step(std::int64_t step) override {
    for (const auto& seams : seams_) seams->set_step(step);
    for (const auto& unit : units_) unit->begin_step();
  }

  bool tap(LeafTap tap) override {
    tap_ = std::move(tap);
    return true;
  }

  void end_micro_batch(int micro_batch, int chunk) override {
    for (const auto& unit : units_) {
      if (unit->spec().chunk != chunk) continue;
      if (!eager_ || !unit->empty()) unit->end_micro_batch(micro_batch);
    }
  }

  StepTotals reduce(const StepShare& mine) override;
  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay) override {
    for (const auto& unit : units_) {
      if (unit->owns_state()) unit->update(config, at, no_decay);
    }
  }

  void gather_parameters() override {
    for (const auto& unit : units_) {
      if (unit->owns_state()) unit->gather_parameters();
    }
    if (tied_) tied_->copy_values();
  }

  std::vector<StateShard> shards(const std::string& what, bool replicated) override;
  void loaded() override {
    for (const auto& unit : units_) {
      if (unit->owns_state()) unit->loaded();
    }
    if (tied_) tied_->copy_values();
  }

  PlanBytes bytes() const override;
  void end_passes() override {
    if (link_) link_->finish();
  }
  std::uint64_t bytes_sent() const override { return groups_.bytes_sent(); }
  std::uint64_t bytes_sent_in_passes() const override { return groups_.bytes_sent_in_passes(); }
  Duration pipeline_idle() const override { return link_ ? link_->waited() : Duration{}; }
  OffloadLedger offload() const override {
    OffloadLedger sum;
    for (const auto& unit : units_) unit->add_traffic(sum);
    return sum;
  }

 private:
  // Where a use of a piece of the model lies on this rank.
  struct Place {
    int unit = -1;  // -1: on other ranks alone
    int piece_index = -1;
  };

  void make_units(Mesh& mesh);
  void add_unit(const UnitSpec& spec, Unit* parameters_of);
  void make_seams(Mesh& mesh);
  void make_flow();
  std::vector<HeldPiece> held_pieces() const;
  Unit* tied_unit(int use) const;

  const Place& place(int piece_index, int use) const {
    const auto& places = places_[use == 0 ? 0 : 1];
    const Place& found = places.at(static_cast<std::size_t>(piece_index));
    SP_CHECK(found.unit >= 0, "a piece that other ranks hold");
    return found;
  }
  at::Tensor use(int piece_index, const Site& site) {
    const Place& at = place(piece_index, site.use);
    if (flow_) {
      const int chunk = units_[static_cast<std::size_t>(at.unit)]->spec().chunk;
      flow_->enter(at.unit, site.pass, before_forward_.contains({site.micro_batch, chunk}));
    }
    return units_[static_cast<std::size_t>(at.unit)]->parameters().view(at.piece_index);
  }
  void take(int piece_index, int sequence_piece, const at::Tensor& leaf, const Site& site) {
    if (tap_ && tap_(piece_index, sequence_piece, leaf, site)) return;
    const Place& at = place(piece_index, site.use);
    Unit& unit = *units_[static_cast<std::size_t>(at.unit)];
    unit.leaf(at.piece_index, sequence_piece, leaf);
    if (eager_ && unit.complete()) unit.end_micro_batch(site.micro_batch);
  }

  const PlanOptions options_;
  const int zero_;
  // Units end a micro-batch as soon as they are complete, so that one unsharded gradient lives.
  const bool eager_;
  PlanGroups groups_;
  const std::unique_ptr<OffloadStore> optimizer_store_, parameter_store_;  // null: not offloaded
  const PieceTable table_;                                                 // of the model
  const std::vector<int> mine_;
  const std::vector<LayerRange> layers_;  // by chunk
  StepScalars scalars_;
  std::unique_ptr<BufferPool> pool_;  // ZeRO 3
  std::vector<std::unique_ptr<Unit>> units_;
  std::unique_ptr<TiedWeights> tied_;
  std::unique_ptr<ParameterFlow> flow_;           // ZeRO 3
  std::set<std::pair<int, int>> before_forward_;  // (micro-batch, chunk): backwards, see enter()
  std::vector<Place> places_[2];                  // by use, then index into table_
  LeafTap tap_;
  std::unique_ptr<StageLink> link_;                // pipeline
  std::vector<std::unique_ptr<MeshSeams>> seams_;  // by chunk
};

void MeshParallel::make_units(Mesh& mesh) {
  const auto owners = tensor_owners(mesh.layout(), options_.shape.tensor_pieces);
  const auto specs = units_of(options_.shape, owners.owned[static_cast<std::size_t>(mesh.at().tp)],
                              layers_, eager_ ? options_.unit_layers : 0);
  if (zero_ == 3) pool_ = std::make_unique<BufferPool>(largest(specs));
  for (auto& places : places_) places.resize(table_.pieces().size());
  for (const UnitSpec& spec : specs) add_unit(spec, spec.use == 1 ? tied_unit(0) : nullptr);
  if (options_.shape.tied) {
    tied_ = std::make_unique<TiedWeights>(mesh.axis(Axis::pipeline), tied_unit(0), tied_unit(1));
  }
}

// After the seams: what the schedule is depends on them.
void MeshParallel::make_flow() {
  std::vector<FlowUnit> units;
  for (const auto& unit : units_) {
    units.push_back({&unit->parameters(), unit->spec().chunk, unit->spec().used_in_backward});
  }
  flow_ = std::make_unique<ParameterFlow>(std::move(units), options_.flow);
  Schedule passes = schedule();
  std::erase_if(passes, [](const Action& action) {
    return action.kind == ActionKind::backward_weight;  // uses no parameter
  });
  for (std::size_t i = 0; i + 1 < passes.size(); ++i) {
    const Action &now = passes[i], &next = passes[i + 1];
    if (now.kind == ActionKind::forward || next.kind != ActionKind::forward) continue;
    if (now.chunk == next.chunk) before_forward_.emplace(now.micro_batch, now.chunk);
  }
}

void MeshParallel::add_unit(const UnitSpec& spec, Unit* parameters_of) {
  units_.push_back(std::make_unique<Unit>(
      groups_, spec,
      UnitOptions{options_.micro_batches, options_.shape.sequence_pieces, options_.native,
                  pool_.get(), optimizer_offload(options_.offload, optimizer_store_.get()),
                  parameter_store_.get(), parameters_of}));
  units_.back()->initialise(options_.shape, options_.seed);
  for (std::size_t i = 0; i < spec.table.pieces().size(); ++i) {
    const PieceSpec& piece = spec.table.pieces()[i];
    const int index = table_.index(piece.name, piece.piece);
    places_[spec.use][static_cast<std::size_t>(index)] = {static_cast<int>(units_.size()) - 1,
                                                          static_cast<int>(i)};
  }
}

// Tensors that are there; where a unit is gathered for each use, those that it will be cut into.
std::vector<HeldPiece> MeshParallel::held_pieces() const {
  std::vector<HeldPiece> held;
  for (const auto& unit : units_) {
    if (!unit->keeps_parameters()) continue;
    for (std::size_t i = 0; i < unit->table().pieces().size(); ++i) {
      const PieceSpec& piece = unit->table().pieces()[i];
      const UnitParameters& parameters = unit->parameters();
      held.push_back({piece.name, piece.dim,
                      parameters.whole() ? parameters.view(static_cast<int>(i)).sizes().vec()
                                         : piece.box.shape});
    }
  }
  return held;
}

// The unit of one use of the tied embedding; null when it is on another stage.
Unit* MeshParallel::tied_unit(int use) const {
  const auto found = std::ranges::find_if(
      units_, [&](const auto& unit) { return unit->spec().tied && unit->spec().use == use; });
  return found == units_.end() ? nullptr : found->get();
}

void MeshParallel::make_seams(Mesh& mesh) {
  if (mesh.layout().pp > 1) {
    link_ = std::make_unique<StageLink>(mesh.axis(Axis::pipeline), static_cast<int>(layers_.size()),
                                        options_.shape.sequence_pieces);
  }
  for (std::size_t chunk = 0; chunk < layers_.size(); ++chunk) {
    seams_.push_back(std::make_unique<MeshSeams>(
        mesh, options_.shape,
        [this](int piece_index, const Site& site) { return use(piece_index, site); },
        [this](int piece_index, int sequence_piece, const at::Tensor& leaf, const Site& site) {
          take(piece_index, sequence_piece, leaf, site);
        },
        options_.seed, StageChunk{link_.get(), static_cast<int>(chunk), layers_[chunk]}));
  }
}

StepTotals MeshParallel::reduce(const StepShare& mine) {
  end_passes();
  if (flow_) flow_->end();
  float* tied[2] = {nullptr, nullptr};
  for (const auto& unit : units_) {
    float* share = unit->reduce_share();
    if (unit->spec().tied) tied[unit->spec().use] = share;
  }
  if (tied_) tied_->add_gradients(tied[0], tied[1]);
  ExactSum squares;
  for (const auto& unit : units_) {
    if (!unit->owns_state()) continue;
    unit->finish_reduce();
    unit->add_squares(squares);
  }
  StepShare brought = mine;
  if (groups_.at().tp != 0) brought.losses = {};
  return scalars_.exchange(groups_.all(), brought, squares);
}

std::vector<StateShard> MeshParallel::shards(const std::string& what, bool replicated) {
  std::vector<StateShard> out;
  for (const auto& unit : units_) {
    if (!unit->owns_state()) continue;
    const Unit::Held held = replicated ? unit->owned(what) : unit->share_of(what);
    append_shards(out, what, table_, unit->table(), held.range, held.data,
                  [&](int i) { return replicated || unit->counts_here(i); });
  }
  return out;
}

PlanBytes MeshParallel::bytes() const {
  PlanBytes bytes;
  bytes.units = 0;
  std::int64_t elements = 0;
  for (const auto& unit : units_) {
    if (unit->keeps_parameters()) {
      bytes.parameters += unit->parameters().resident_bytes();
      bytes.parameters_offloaded += unit->parameters().offloaded_bytes();
    }
    bytes.gradients += unit->gradient_bytes();
    bytes.optimizer += unit->optimizer_bytes();
    bytes.optimizer_offloaded += unit->offloaded_optimizer_bytes();
    bytes.communication += unit->staging_bytes();
    if (!unit->owns_state()) continue;
    elements += unit->table().elements();
    ++bytes.units;
  }
  const int ways = zero_ == 0 ? 1 : groups_.layout().cp * groups_.shard_size();
  bytes.optimizer_exact = 3 * float_bytes * elements / ways;
  if (pool_) bytes.gathered = pool_->bytes();
  bytes.communication += scalars_.live_bytes();
  return bytes;
}

}  // namespace

std::unique_ptr<Plan> make_mesh_parallel(Mesh& mesh, const PlanOptions& options) {
  return std::make_unique<MeshParallel>(mesh, options);
}

}  // namespace shardproof
