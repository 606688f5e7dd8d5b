// unit: shares of one arena.
#include "parallel/unit.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "optim/grad_clip.h"

namespace shardproof {
namespace {

std::vector<std::size_t> state_shares(PlanGroups& groups, const PieceTable& table) {
  const auto counts = table.share_counts(groups.state().size());
  return {counts.begin(), counts.end()};
}

// Of every context rank: the shares of its F data ranks together.
std::vector<std::size_t> context_shares(const PlanGroups& groups,
                                        const std::vector<std::size_t>& shares) {
  std::vector<std::size_t> out;
  for (auto first = shares.begin(); first != shares.end(); first += groups.shard_size()) {
    out.push_back(std::accumulate(first, first + groups.shard_size(), std::size_t{0}));
  }
  return out;
}

std::vector<std::size_t> data_shares(const PlanGroups& groups,
                                     const std::vector<std::size_t>& shares) {
  const auto first = shares.begin() + groups.at().cp * groups.shard_size();
  return {first, first + groups.shard_size()};
}

}  // namespace

Unit::Unit(PlanGroups& groups, UnitSpec spec, const UnitOptions& options)
    : groups_(groups),
      spec_(std::move(spec)),
      shares_(state_shares(groups, spec_.table)),
      offload_(options.optimizer),
      own_parameters_(options.parameters_of != nullptr
                          ? nullptr
                          : std::make_unique<UnitParameters>(spec_.table, shares_, groups.gather(),
                                                             options.pool, options.parameters)),
      parameters_(own_parameters_ ? own_parameters_.get() : options.parameters_of->parameters_),
      sequence_(groups, spec_.table, options.sequence_pieces, context_shares(groups, shares_),
                options.native),
      batch_(make_batch_sum(groups, {options.micro_batches, data_shares(groups, shares_),
                                     sharded_gradients(), options.native})),
      keeps_arenas_(!sharded_gradients() && !options.native) {
  if (everything() && owns_state())
    whole_gradient_ = flat_zeros(spec_.table.elements(), MemoryUse::gradients);
}

void Unit::initialise(const GptShape& shape, std::uint64_t seed) {
  if (!keeps_parameters()) return;
  const ElementRange range = owned("param").range;
  float* values = owned("param").data;
  for (std::size_t i = 0; i < table().pieces().size(); ++i) {
    const ElementRange piece = table().range(static_cast<int>(i));
    const ElementRange part = intersect(piece, range);
    if (part.size() <= 0) continue;
    initial_values(shape, table().pieces()[i], {part.lo - piece.lo, part.hi - piece.lo}, seed,
                   values + (part.lo - range.lo));
  }
  if (owns_state()) {
    const ElementRange updated = everything() ? range : share();
    optimizer_.emplace(table(), updated, everything() ? values : parameters_->share_data(),
                       offload_);
  }
  parameters_->keep_view();
}

void Unit::begin_step() {
  if (optimizer_) optimizer_->drop_views();
  parameters_->drop_view();
  sequence_.clear();
  batch_->clear();
  is_reduced_ = false;
}

void Unit::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient) {
  sequence_.leaf(piece_index, sequence_piece, gradient);
}

void Unit::end_micro_batch(int micro_batch) {
  batch_->add(micro_batch, sequence_.finish(batch_->spare()));
  if (!keeps_arenas_) sequence_.release();
}

float* Unit::reduce_share() {
  reduced_ = batch_->reduce();
  return reduced_;
}

void Unit::finish_reduce() {
  is_reduced_ = true;
  if (!everything()) return;
  float* whole = whole_gradient_.data_ptr<float>();
  std::copy_n(reduced_, share().size(), whole + share().lo);
  gather(whole);
  reduced_ = whole;
}

bool Unit::counts_here(int piece_index) const {
  const PieceSpec& piece = table().pieces()[static_cast<std::size_t>(piece_index)];
  return groups_.replica() == 0 && (piece.pieces > 1 || groups_.at().tp == 0);
}

void Unit::add_squares(ExactSum& squares) const {
  SP_CHECK(is_reduced_, "a norm before reduce");
  const ElementRange mine = parameters_->share();
  const float* values = reduced_ + (everything() ? mine.lo : 0);
  for (std::size_t i = 0; i < table().pieces().size(); ++i) {
    const ElementRange part = intersect(table().range(static_cast<int>(i)), mine);
    if (part.size() <= 0 || !counts_here(static_cast<int>(i))) continue;
    add_squared_norms(table(), part, values + (part.lo - mine.lo), squares);
  }
}

void Unit::update(const AdamWConfig& config, const AdamWStep& at,
                  const std::vector<std::string>& no_decay) {
  SP_CHECK(is_reduced_, "update before reduce");
  optimizer_->update(config, at, no_decay, reduced_,
                     [this](std::int64_t lo, std::span<const float> masters) {
                       if (!everything()) return parameters_->set_share(lo, masters);
                       std::ranges::copy(masters, parameters_->data() + lo);
                     });
}

void Unit::gather_parameters() {
  const int zero = groups_.layout().zero;
  if (zero == 1 || zero == 2) parameters_->spread();
}

Unit::Held Unit::owned(const std::string& what) {
  if (what == "param") {
    if (groups_.layout().zero == 3) return {share(), parameters_->share_data()};
    return {{0, table().elements()}, parameters_->data()};
  }
  const ElementRange range = optimizer_->owned();
  if (what == "grad") {
    SP_CHECK(is_reduced_, "there is no gradient before reduce");
    return {range, reduced_};
  }
  return {range, optimizer_->data(what)};
}

Unit::Held Unit::share_of(const std::string& what) {
  const Held all = owned(what);
  return {share(), all.data + (share().lo - all.range.lo)};
}

// Every rank's share of a full arena reaches the ranks that share it, in place.
void Unit::gather(float* arena) {
  all_gather_v(groups_.state(), arena + share().lo, arena, shares_, Dtype::f32);
}

// A loader has filled whole parameters on tensor rank 0 alone. Shares of other tensor ranks may lie
// otherwise, so all of them travel: every bit is set on one rank of the stage and 0 on the others.
void Unit::share_whole_parameters(float* values) {
  std::vector<std::size_t> whole;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < table().pieces().size(); ++i) {
    if (table().pieces()[i].pieces > 1) continue;
    whole.push_back(i);
    count += table().range(static_cast<int>(i)).size();
  }
  std::vector<std::int32_t> bits(static_cast<std::size_t>(count), 0);
  const auto each_place = [&](const auto& copy) {
    std::int32_t* at = bits.data();
    for (const std::size_t i : whole) {
      const ElementRange place = table().range(static_cast<int>(i));
      const ElementRange part = intersect(place, share());
      if (part.size() > 0) {
        copy(at + (part.lo - place.lo), values + (part.lo - share().lo),
             static_cast<std::size_t>(part.size()) * sizeof(float));
      }
      at += place.size();
    }
  };
  if (groups_.at().tp == 0 && groups_.replica() == 0) {
    each_place(
        [](std::int32_t* to, const float* from, std::size_t n) { std::memcpy(to, from, n); });
  }
  all_reduce(groups_.stage(), bits.data(), bits.data(), bits.size(), Dtype::i32, ReduceOp::bit_or);
  each_place([](const std::int32_t* from, float* to, std::size_t n) { std::memcpy(to, from, n); });
}

void Unit::loaded() {
  for (const char* what : {"param", "master", "exp_avg", "exp_avg_sq"}) {
    float* values = share_of(what).data;
    if (groups_.replicas() > 1) {
      broadcast(groups_.replica_group(), values, static_cast<std::size_t>(share().size()),
                Dtype::f32, 0);
    }
    if (groups_.tensor().size() > 1) share_whole_parameters(values);
    // By layout, not by comparing ranges: a rank whose share is the whole of a small unit takes
    // part.
    const bool is_whole =
        std::string_view(what) == "param" ? groups_.layout().zero != 3 : everything();
    if (is_whole) gather(owned(what).data);
  }
  optimizer_->keep_views();
  parameters_->keep_view();
}

void Unit::add_traffic(OffloadLedger& sum) const {
  if (keeps_parameters()) {
    sum.parameters += parameters_->traffic();
    sum.views += parameters_->view_traffic();
  }
  if (!optimizer_) return;
  sum.optimizer += optimizer_->traffic();
  sum.views += optimizer_->view_traffic();
}

std::int64_t Unit::gradient_bytes() const {
  return sequence_.live_bytes() + batch_->live_bytes() +
         (whole_gradient_.defined() ? static_cast<std::int64_t>(whole_gradient_.nbytes()) : 0);
}

}  // namespace shardproof
