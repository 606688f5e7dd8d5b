// ctest: invariant timeout=120
// The predicted calls and bytes against those that the seams of thread ranks make, in order; and
// against the ring formulas where shares are equal.
#include "parallel/seam_cost.h"

#include <gtest/gtest.h>

#include "comm/stack.h"
#include "model/gpt_testing.h"
#include "parallel/legality.h"
#include "parallel/mesh_seams.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int rows = 2;
constexpr std::uint64_t seed = 3;

GptShape tiny() {
  GptShape shape;
  shape.width = 16;
  shape.heads = 4;
  shape.vocabulary = 61;
  shape.sequence = 8;
  shape.tensor_pieces = 4;
  shape.sequence_pieces = 4;
  return shape;
}

using Seen = std::vector<std::tuple<CallKind, Dtype, std::uint64_t>>;

Seen calls_of(const std::vector<PredictedCall>& calls) {
  Seen seen;
  for (const PredictedCall& call : calls) {
    seen.emplace_back(call.kind, call.dtype, call.send_elements);
  }
  return seen;
}

std::uint64_t bytes_of(const std::vector<PredictedCall>& calls) {
  std::uint64_t sum = 0;
  for (const PredictedCall& call : calls) sum += call.bytes;
  return sum;
}

// What one axis of a mesh has done since the last look.
class Watch {
 public:
  Watch(Communicator& axis, const FlightRecorder& recorder) : axis_(axis), recorder_(recorder) {
    look({});
  }

  void expect(const std::vector<PredictedCall>& calls) {
    Seen seen;
    const std::uint64_t bytes = look([&](const FlightRecord& record) {
      seen.emplace_back(record.kind, record.dtype, record.send_count);
    });
    EXPECT_EQ(seen, calls_of(calls)) << axis_.group().name << " rank " << axis_.rank();
    EXPECT_EQ(bytes, bytes_of(calls)) << axis_.group().name << " rank " << axis_.rank();
  }

 private:
  std::uint64_t look(const std::function<void(const FlightRecord&)>& visit) {
    for (const FlightRecord& record : recorder_.last()) {
      if (record.id < next_ || record.group != axis_.group().name) continue;
      next_ = record.id + 1;
      if (visit) visit(record);
    }
    const std::uint64_t before = sent_;
    sent_ = axis_.traffic().bytes_sent;
    return sent_ - before;
  }

  Communicator& axis_;
  const FlightRecorder& recorder_;
  std::uint64_t next_ = 0;
  std::uint64_t sent_ = 0;
};

void expect_predicted(const char* text, const GptShape& shape) {
  SCOPED_TRACE(text);
  const Layout layout = parse_layout(text);
  ASSERT_EQ(problem(layout, shape, 1), "");
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = testing::initial_parameters(shape, table, seed);
  const MicroBatch batch = testing::random_batch(shape, 0, rows, seed, 4);
  const LayerRange all{0, shape.layers};
  on_thread_ranks(layout.world(), [&](Communicator& world) {
    const int rank = world.rank();
    const auto recorder = std::make_shared<FlightRecorder>(rank);
    const auto comm =
        wrap(world.split(0, rank, "recorded", default_deadline(world)), {recorder, {}});
    Mesh mesh(*comm, layout);
    MeshSeams seams(
        mesh, shape,
        [&](int piece_index, const Site&) {
          return parameters[static_cast<std::size_t>(piece_index)];
        },
        [](int, int, at::Tensor, const Site&) {}, seed);
    Gpt gpt(shape, table, seams);
    Watch tensor(mesh.axis(Axis::tensor), *recorder);
    Watch context(mesh.axis(Axis::context), *recorder);
    const auto expect = [&](const SeamCalls& calls) {
      tensor.expect(calls.tensor);
      context.expect(calls.context);
    };
    gpt.forward(batch);
    expect(predicted_forward(layout, shape, all, rows, rank, CommBackend::threads));
    gpt.backward(0, 0.125);
    expect(predicted_backward(layout, shape, all, rows, rank, CommBackend::threads));
  });
}

TEST(SeamCost, IsWhatTheSeamsSend) {
  GptShape smoothed = tiny();
  smoothed.label_smoothing = 0.1;
  for (const char* text :
       {"dp1", "tp2", "tp3", "tp4.sp", "tp3.sp", "cp2", "cp3", "cp2-zigzag", "cp2-ulysses",
        "cp3-ulysses", "cp4-ulysses", "tp2.cp2", "tp2.sp.cp2-zigzag", "tp2.sp.cp2-ulysses"}) {
    expect_predicted(text, tiny());
    expect_predicted(text, smoothed);
  }
}

// B: the activations of a micro-batch in this rank's sequence pieces. Two sums and, under sp, two
// gathers a layer and direction; the embedding, and the head's input, once each.
TEST(SeamCost, FollowsTheRingFormulasWhereSharesAreEqual) {
  GptShape shape = tiny();
  const LayerRange all{0, shape.layers};
  const auto layers = static_cast<std::uint64_t>(shape.layers);
  const std::uint64_t b = sizeof(float) * rows * 8 * 16, tokens = sizeof(float) * rows * 8;
  for (const int k : {2, 4}) {
    SCOPED_TRACE(k);
    shape.tensor_pieces = k;  // one subtree a rank, whatever k
    const auto ring = [&](std::uint64_t bytes) {
      return bytes * static_cast<std::uint64_t>(k - 1) / static_cast<std::uint64_t>(k);
    };
    for (const bool sp : {false, true}) {
      Layout layout;
      layout.tp = k;
      layout.sequence_parallel = sp;
      const auto back = predicted_backward(layout, shape, all, rows, 1, CommBackend::threads);
      const std::uint64_t sums = (2 * layers + 1) * ring(b) * (sp ? 1 : 2);
      const std::uint64_t gathers = sp ? (2 * layers + 1) * ring(b) : 0;
      EXPECT_EQ(bytes_of(back.tensor), sums + gathers);
      // The maxima of all pieces, gathered; two terms of a token, all-reduced.
      const auto there = predicted_forward(layout, shape, all, rows, 1, CommBackend::threads);
      const std::uint64_t loss = tokens * static_cast<std::uint64_t>(k - 1) + 2 * ring(2 * tokens);
      EXPECT_EQ(bytes_of(there.tensor), sums + gathers + loss);
    }
    shape.tensor_pieces = 4;
    Layout layout;
    layout.cp = k;
    layout.context_kind = "ulysses";
    for (const auto& calls :
         {predicted_forward(layout, shape, all, rows, 1, CommBackend::threads),
          predicted_backward(layout, shape, all, rows, 1, CommBackend::threads)}) {
      EXPECT_EQ(bytes_of(calls.context), layers * 4 * ring(b / static_cast<std::uint64_t>(k)));
      EXPECT_TRUE(calls.tensor.empty());
    }
  }
}

}  // namespace
}  // namespace shardproof
