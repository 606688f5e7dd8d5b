// ctest: invariant timeout=120
// Sums over micro-batches, sequence pieces, uses and ranks, without a model: every leaf that a plan
// is given holds multiples of 1/64, so additions are exact in any order and each element of the
// reduced gradient is known. A leaf that is lost, counted twice, weighted or left on its rank shows
// in bits, in native reduction as in canonical.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/gpt_testing.h"
#include "parallel/make_plan.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int micro_batches = 12;
constexpr const char* layouts[] = {"dp1",
                                   "dp2",
                                   "dp3",
                                   "dp2.zero1",
                                   "dp3.zero1",
                                   "dp2.zero2",
                                   "dp4.zero2",
                                   "dp3.zero3",
                                   "dp4.zero1-shard2",
                                   "dp4.zero2-shard2",
                                   "dp4.zero3-shard2"};

PlanOptions options_of(bool native, bool tied) {
  PlanOptions options;
  options.shape.layers = 2;
  options.shape.width = 16;
  options.shape.heads = 2;
  options.shape.vocabulary = 61;
  options.shape.sequence = 8;
  options.shape.tensor_pieces = 2;
  options.shape.sequence_pieces = 2;
  options.shape.tied = tied;
  options.micro_batches = micro_batches;
  options.native = native;
  options.bucket_bytes = 4096;
  return options;
}

float value(int piece, std::int64_t element, int micro_batch, int sequence, int use) {
  const std::int64_t whole = piece % 11 + element % 13 + 7 * micro_batch + 3 * sequence + 5 * use;
  return static_cast<float>(whole + 1) / 64;
}

bool used_by_head(const PlanOptions& options, const PieceSpec& piece) {
  return options.shape.tied && piece.name == "embed.weight";
}

float whole_sum(const PlanOptions& options, const PieceSpec& piece, int index,
                std::int64_t element) {
  float sum = 0;
  for (int use = 0; use <= (used_by_head(options, piece) ? 1 : 0); ++use) {
    for (int m = 0; m < micro_batches; ++m) {
      for (int s = 0; s < options.shape.sequence_pieces; ++s) {
        sum += value(index, element, m, s, use);
      }
    }
  }
  return sum;
}

// One leaf of a piece, as the backward of a model brings it.
void bring(Plan& plan, int index, int micro_batch, int sequence, int use) {
  const PieceSpec& piece = plan.table().pieces()[static_cast<std::size_t>(index)];
  at::Tensor leaf = at::empty(piece.box.shape, at::kFloat);
  for (std::int64_t e = 0; e < leaf.numel(); ++e) {
    leaf.data_ptr<float>()[e] = value(index, e, micro_batch, sequence, use);
  }
  Site site{"gradient", -1, micro_batch, sequence, Pass::backward};
  site.use = use;
  plan.seams(0).gradient(index, sequence, std::move(leaf), site);
}

void bring_all(Plan& plan, const PlanOptions& options, int micro_batch) {
  const auto& pieces = plan.table().pieces();
  for (int s = 0; s < options.shape.sequence_pieces; ++s) {
    for (int i = 0; i < static_cast<int>(pieces.size()); ++i) {
      if (used_by_head(options, pieces[static_cast<std::size_t>(i)])) {
        bring(plan, i, micro_batch, s, 1);
      }
    }
  }
  for (int i = static_cast<int>(pieces.size()); i-- > 0;) {
    for (int s = 0; s < options.shape.sequence_pieces; ++s) bring(plan, i, micro_batch, s, 0);
  }
  plan.end_micro_batch(micro_batch, 0);
}

void expect_exact(const std::string& layout, const PlanOptions& options) {
  SCOPED_TRACE(fmt::format("{}{}{}", layout, options.native ? ", native" : "",
                           options.shape.tied ? ", tied" : ""));
  on_thread_ranks(parse_layout(layout).world(), [&](Communicator& comm) {
    Mesh mesh(comm, parse_layout(layout));
    const auto plan = make_plan(mesh, options);
    for (int step = 0; step < 2; ++step) {  // what the first left behind would show in the second
      plan->begin_step(step);
      std::vector<LossLeaf> losses;
      for (const int m : plan->micro_batches()) {
        bring_all(*plan, options, m);
        for (int s = 0; s < options.shape.sequence_pieces; ++s) losses.push_back({m, s, 0, 0});
      }
      plan->reduce({losses, 0, false});
      for (const StateShard& shard : plan->shards("grad", true)) {
        const PieceSpec& piece =
            plan->table().pieces()[static_cast<std::size_t>(shard.piece_index)];
        for (std::int64_t e = 0; e < shard.range.size(); ++e) {
          ASSERT_EQ(static_cast<const float*>(shard.data)[e],
                    whole_sum(options, piece, shard.piece_index, shard.range.lo + e))
              << "element " << shard.range.lo + e << " of grad of " << piece.name << ", rank "
              << comm.rank();
        }
      }
    }
  });
}

TEST(ExactSums, NativePlansSumEveryLeafOnce) {
  for (const char* layout : layouts) {
    for (const bool tied : {false, true}) expect_exact(layout, options_of(true, tied));
  }
}

TEST(ExactSums, CanonicalPlansSumEveryLeafOnce) {
  for (const char* layout : layouts) {
    for (const bool tied : {false, true}) expect_exact(layout, options_of(false, tied));
  }
}

}  // namespace
}  // namespace shardproof
