// native_data_parallel: buckets filled by the backward, launched in order.
#include "parallel/native_data_parallel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "optim/grad_clip.h"
#include "parallel/bucket_map.h"
#include "parallel/gradient_bucket.h"
#include "parallel/parameter_placement.h"
#include "parallel/step_scalars.h"

namespace shardproof {
namespace {

class NativeDataParallel : public Plan {
 public:
  NativeDataParallel(Mesh& mesh, const NativeOptions& options)
      : comm_(mesh.axis(Axis::data)),
        options_(options),
        table_(gpt_pieces(options.shape)),
        mine_(owned_micro_batches(mesh.layout(), options.micro_batches, mesh.at().dp)),
        // Buckets under way and the scalars of a step must not wait for each other.
        reduce_(comm_.split(0, comm_.rank(), "buckets", default_deadline(comm_))),
        scalars_(options.micro_batches, options.shape.sequence_pieces,
                 loss_owners(mesh.layout(), options.micro_batches, options.shape.sequence_pieces),
                 comm_.rank()),
        store_(make_offload_store(options.offload.optimizer, options.offload.directory,
                                  mesh.world().rank())),
        buckets_(make_buckets()),
        seams_(options.shape, views(), sink(), options.seed) {
    std::vector<HeldPiece> held;
    const auto tensors = views();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      held.push_back({table_.pieces()[i].name, table_.pieces()[i].dim, tensors[i].sizes().vec()});
    }
    check_parameters(mesh.layout(), options.shape, {{0, options.shape.layers}}, comm_.rank(), held);
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
    for (auto& bucket : buckets_) bucket->begin_step();
    next_ = 0;
    reduced_ = false;
  }

  void end_micro_batch(int, int) override {}

  StepTotals reduce(const StepShare& mine) override {
    check_nothing_is_missing();
    launch_ready(false);
    ExactSum squares;
    for (auto& bucket : buckets_) {
      bucket->finish(*reduce_);
      const ElementRange share = bucket->table().share(comm_.size(), comm_.rank());
      add_squared_norms(bucket->table(), share, bucket->gradient().data() + share.lo, squares);
    }
    reduced_ = true;
    return scalars_.exchange(comm_, mine, squares);
  }

  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay) override {
    SP_CHECK(reduced_, "update before reduce");
    for (auto& bucket : buckets_) bucket->update(config, at, no_decay);
  }
  void gather_parameters() override {}

  std::vector<StateShard> shards(const std::string& what, bool replicated) override;
  void loaded() override;
  PlanBytes bytes() const override;
  std::uint64_t bytes_sent() const override {
    return comm_.traffic().bytes_sent + reduce_->traffic().bytes_sent;
  }
  OffloadLedger offload() const override {
    OffloadLedger sum;
    for (const auto& bucket : buckets_) {
      sum.optimizer += bucket->optimizer().traffic();
      sum.views += bucket->optimizer().view_traffic();
    }
    return sum;
  }

 private:
  struct Place {
    std::size_t bucket = 0;
    int piece_index = 0;  // in the bucket's table
  };

  std::vector<std::unique_ptr<GradientBucket>> make_buckets();
  std::function<int(const std::string&)> leaves_of_a_step() const;
  std::vector<at::Tensor> views();

  LoneSeams::Sink sink() {
    return [this](int piece_index, int, at::Tensor leaf, const Site&) {
      const Place& at = places_[static_cast<std::size_t>(piece_index)];
      buckets_[at.bucket]->add(at.piece_index, leaf);
      if (options_.overlap) launch_ready(true);
    };
  }

  // In bucket order, so that all ranks start the same sums in the same order.
  void launch_ready(bool overlap) {
    for (; next_ < buckets_.size() && buckets_[next_]->ready(); ++next_) {
      GradientBucket& bucket = *buckets_[next_];
      if (options_.before_reduce) options_.before_reduce(bucket.gradient());
      bucket.launch(*reduce_, overlap);
    }
  }

  void check_nothing_is_missing() const {
    std::vector<std::string> names;
    for (const auto& bucket : buckets_) {
      const auto missing = bucket->missing();
      names.insert(names.end(), missing.begin(), missing.end());
    }
    if (names.empty()) return;
    throw Error(ErrorKind::mismatch, "gradient buckets",
                fmt::format("no gradient arrived for {}; expected one of every parameter in every "
                            "micro-batch",
                            fmt::join(names, ", ")));
  }

  float* data(GradientBucket& bucket, const std::string& what);

  Communicator& comm_;
  const NativeOptions options_;
  const PieceTable table_;
  const std::vector<int> mine_;
  const std::unique_ptr<Communicator> reduce_;
  StepScalars scalars_;
  std::vector<Place> places_;                  // by index into table_
  const std::unique_ptr<OffloadStore> store_;  // null: the optimizer state stays on the device
  std::vector<std::unique_ptr<GradientBucket>> buckets_;
  std::size_t next_ = 0;  // bucket to launch
  bool reduced_ = false;
  LoneSeams seams_;
};

// Of a piece, by its name: each micro-batch and sequence piece brings one for each use.
std::function<int(const std::string&)> NativeDataParallel::leaves_of_a_step() const {
  const int once = static_cast<int>(mine_.size()) * options_.shape.sequence_pieces;
  return [once, tied = options_.shape.tied](const std::string& name) {
    return tied && name == tied_weight ? 2 * once : once;
  };
}

std::vector<std::unique_ptr<GradientBucket>> NativeDataParallel::make_buckets() {
  places_.resize(table_.pieces().size());
  std::vector<std::unique_ptr<GradientBucket>> buckets;
  for (const std::vector<int>& pieces : bucket_map(table_, options_.bucket_bytes)) {
    std::vector<PieceSpec> specs;
    for (const int i : pieces) specs.push_back(table_.pieces()[static_cast<std::size_t>(i)]);
    auto bucket =
        std::make_unique<GradientBucket>(PieceTable(std::move(specs)), leaves_of_a_step());
    const PieceTable& table = bucket->table();
    for (std::size_t i = 0; i < table.pieces().size(); ++i) {
      const PieceSpec& piece = table.pieces()[i];
      places_[static_cast<std::size_t>(table_.index(piece.name, piece.piece))] = {
          buckets.size(), static_cast<int>(i)};
      initial_values(options_.shape, piece, {0, piece.elements()}, options_.seed,
                     bucket->parameters() + table.range(static_cast<int>(i)).lo);
    }
    bucket->start_optimizer(optimizer_offload(options_.offload, store_.get()));
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

std::vector<at::Tensor> NativeDataParallel::views() {
  std::vector<at::Tensor> out;
  for (const Place& at : places_) out.push_back(buckets_[at.bucket]->view(at.piece_index));
  return out;
}

float* NativeDataParallel::data(GradientBucket& bucket, const std::string& what) {
  if (what == "param") return bucket.parameters();
  if (what != "grad") return bucket.optimizer().data(what);
  SP_CHECK(reduced_, "there is no gradient before reduce");
  return bucket.gradient().data();
}

std::vector<StateShard> NativeDataParallel::shards(const std::string& what, bool replicated) {
  std::vector<StateShard> out;
  for (auto& bucket : buckets_) {
    const PieceTable& table = bucket->table();
    const ElementRange held =
        replicated ? ElementRange{0, table.elements()} : table.share(comm_.size(), comm_.rank());
    append_shards(out, what, table_, table, held, data(*bucket, what) + held.lo,
                  [](int) { return true; });
  }
  return out;
}

// A loader may have filled only the blocks that are this rank's alone.
void NativeDataParallel::loaded() {
  for (auto& bucket : buckets_) {
    const PieceTable& table = bucket->table();
    const auto counts = table.share_counts(comm_.size());
    const ElementRange share = table.share(comm_.size(), comm_.rank());
    for (const char* what : {"param", "master", "exp_avg", "exp_avg_sq"}) {
      float* values = data(*bucket, what);
      all_gather_v(comm_, values + share.lo, values, {counts.begin(), counts.end()}, Dtype::f32);
    }
    bucket->optimizer().keep_views();
  }
}

PlanBytes NativeDataParallel::bytes() const {
  PlanBytes bytes;
  for (const auto& bucket : buckets_) {
    const std::int64_t of_arena = 4 * bucket->table().elements();
    bytes.parameters += of_arena;
    bytes.gradients += of_arena;
    bytes.optimizer += bucket->optimizer().bytes();
    bytes.optimizer_offloaded += bucket->optimizer().offloaded_bytes();
  }
  bytes.optimizer_exact = 3 * bytes.parameters;
  bytes.units = static_cast<std::int64_t>(buckets_.size());
  bytes.communication = scalars_.live_bytes();
  return bytes;
}

}  // namespace

std::unique_ptr<Plan> make_native_data_parallel(Mesh& mesh, const NativeOptions& options) {
  SP_CHECK_EQ(mesh.layout().world(), mesh.layout().dp);
  return std::make_unique<NativeDataParallel>(mesh, options);
}

}  // namespace shardproof
