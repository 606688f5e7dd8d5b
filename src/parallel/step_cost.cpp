// step_cost: what each part of a step costs.
#include "parallel/step_cost.h"

#include "base/exact_sum.h"
#include "parallel/bucket_map.h"
#include "parallel/gather_cost.h"
#include "parallel/mesh_pieces.h"
#include "parallel/schedule.h"
#include "parallel/seam_cost.h"
#include "parallel/stage_layers.h"

namespace shardproof {
namespace {

// The limbs of the norm, memory, a wish to stop; each is one int64, as a loss leaf is.
constexpr std::size_t scalars_of_a_rank = ExactSum::limbs + 2;

Call sum_call(std::size_t count, Dtype dtype) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.dtype = dtype;
  call.count = count;
  return call;
}

class Prediction {
 public:
  Prediction(const Layout& layout, const PlanOptions& options, int rows, int rank,
             CommBackend backend)
      : layout_(layout),
        options_(options),
        rows_(rows),
        rank_(rank),
        backend_(backend),
        at_(coordinates(layout, rank)),
        mine_(owned_micro_batches(layout, options.micro_batches, at_.dp)),
        layers_(chunk_layers(layout, at_.pp, options.shape.layers, options.stage_layers)) {}

  GroupCalls run() {
    add("dp", predicted(sum_call(1, Dtype::i64), at_.dp, layout_.dp, backend_));  // valid tokens
    model();
    // Plain data parallelism with native sums has buckets in place of units.
    const bool plain = layout_.world() == layout_.dp && layout_.shard_group == 0;
    const bool buckets = plain && options_.native && layout_.zero == 0;
    if (buckets) {
      sum_buckets();
    } else {
      units();
    }
    scalars(buckets ? "dp" : "all");
    return std::move(out_);
  }

 private:
  void add(const std::string& label, const PredictedCall& call) { out_[label].push_back(call); }
  void add(const std::string& label, const std::vector<PredictedCall>& calls) {
    out_[label].insert(out_[label].end(), calls.begin(), calls.end());
  }

  Schedule schedule() const {
    if (layout_.pp > 1) return stage_schedule(layout_, at_.pp, mine_);
    Schedule out;
    for (const int m : mine_) {
      out.push_back({ActionKind::forward, m, 0});
      out.push_back({ActionKind::backward, m, 0});
    }
    return out;
  }

  // Every micro-batch makes the same calls on its way through a chunk.
  void model() {
    for (const LayerRange& layers : layers_) {
      for (const auto& predict : {predicted_forward, predicted_backward}) {
        const SeamCalls calls = predict(layout_, options_.shape, layers, rows_, rank_, backend_);
        for (std::size_t m = 0; m < mine_.size(); ++m) {
          add("tp", calls.tensor);
          add("cp", calls.context);
          add("pp", calls.pipeline);
        }
      }
    }
  }

  void sum_buckets() {
    const PieceTable table(gpt_pieces(options_.shape));
    for (const std::vector<int>& bucket : bucket_map(table, options_.bucket_bytes)) {
      std::vector<PieceSpec> pieces;
      for (const int i : bucket) pieces.push_back(table.pieces()[static_cast<std::size_t>(i)]);
      const auto elements = static_cast<std::size_t>(PieceTable(std::move(pieces)).elements());
      add("buckets", predicted(sum_call(elements, Dtype::f32), rank_, layout_.dp, backend_));
    }
  }

  void units() {
    const auto owners = tensor_owners(layout_, options_.shape.tensor_pieces);
    const bool whole_chunks = layout_.zero < 2 && !options_.native;
    const auto units = units_of(options_.shape, owners.owned[static_cast<std::size_t>(at_.tp)],
                                layers_, whole_chunks ? 0 : options_.unit_layers);
    UnitCost cost(layout_, options_, rank_, backend_);
    for (const UnitSpec& unit : units) {
      for (std::size_t round = 0; round < mine_.size(); ++round) {
        cost.micro_batch(unit.table, round);
      }
      cost.end_of_step(unit);
    }
    cost.tied(units);
    if (layout_.zero == 3) {
      for (const int u : predicted_gathers(units, schedule(), options_.flow)) {
        cost.gather("gather", units[static_cast<std::size_t>(u)].table);
      }
    }
    for (const auto& [label, calls] : cost.calls) add(label, calls);
  }

  void scalars(const char* label) {
    const auto owners = micro_batch_owners(layout_, options_.micro_batches);
    const auto sequence = sequence_owners(layout_, options_.shape.sequence_pieces);
    Call gather;
    gather.kind = CallKind::all_gather;
    gather.dtype = Dtype::i64;
    for (int rank = 0; rank < layout_.world(); ++rank) {
      const Coordinates at = coordinates(layout_, rank);
      const std::size_t losses = owners.owned[static_cast<std::size_t>(at.dp)].size() *
                                 sequence.owned[static_cast<std::size_t>(at.cp)].size();
      const bool brings = at.tp == 0 && at.pp == layout_.pp - 1;
      gather.recv_counts.push_back(scalars_of_a_rank + (brings ? losses : 0));
    }
    add(label, predicted(gather, rank_, layout_.world(), backend_));
  }

  const Layout layout_;
  const PlanOptions& options_;
  const int rows_;
  const int rank_;
  const CommBackend backend_;
  const Coordinates at_;
  const std::vector<int> mine_;           // micro-batches
  const std::vector<LayerRange> layers_;  // by chunk
  GroupCalls out_;
};

}  // namespace

GroupCalls predicted_step(const Layout& layout, const PlanOptions& options, int rows,
                          int world_rank, CommBackend backend) {
  return Prediction(layout, options, rows, world_rank, backend).run();
}

std::uint64_t bytes_of(const GroupCalls& calls) {
  std::uint64_t sum = 0;
  for (const auto& [label, of_group] : calls) {
    for (const PredictedCall& call : of_group) sum += call.bytes;
  }
  return sum;
}

}  // namespace shardproof
