// ctest: invariant timeout=60
// Every record against the tensors that the model of a real plan uses: shape, and the values of the
// box it names.
#include "parallel/parameter_placement.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/expect_error.h"
#include "model/gpt_testing.h"
#include "parallel/make_plan.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr std::uint64_t seed = 7;

GptShape odd_shape() {
  return {.layers = 2,
          .width = 24,
          .heads = 4,
          .vocabulary = 61,
          .sequence = 8,
          .tensor_pieces = 4,
          .sequence_pieces = 4};
}

std::vector<std::int64_t> shape_of(const at::Tensor& tensor) {
  return tensor.sizes().vec();
}

// What the model of this rank computes with: its pieces of each parameter, side by side.
std::map<std::string, at::Tensor> local_parameters(Plan& plan) {
  std::map<std::string, std::vector<at::Tensor>> pieces;
  std::map<std::string, int> dims;
  const auto& specs = plan.table().pieces();
  const std::vector<int>& tensor = plan.seams(0).owned().tensor;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].pieces > 1 && std::ranges::count(tensor, specs[i].piece) == 0) continue;
    pieces[specs[i].name].push_back(
        plan.seams(0).parameter(static_cast<int>(i), {"parameter"}).clone());
    dims[specs[i].name] = std::max(0, specs[i].dim);
  }
  std::map<std::string, at::Tensor> whole;
  for (const auto& [name, list] : pieces) whole[name] = at::cat(list, dims[name]);
  return whole;
}

// The whole model's initial values, by name.
std::map<std::string, at::Tensor> global_parameters(GptShape shape) {
  shape.tensor_pieces = 1;
  const PieceTable table(gpt_pieces(shape));
  const auto values = testing::initial_parameters(shape, table, seed);
  std::map<std::string, at::Tensor> whole;
  for (std::size_t i = 0; i < values.size(); ++i) whole[table.pieces()[i].name] = values[i];
  return whole;
}

at::Tensor cut_out(at::Tensor values, const Box& box) {
  for (std::size_t d = 0; d < box.shape.size(); ++d) {
    values = values.narrow(static_cast<std::int64_t>(d), box.offsets[d], box.shape[d]);
  }
  return values.contiguous();
}

void check_all(const Layout& layout, const GptShape& shape, int rank,
               const std::vector<Placement>& records,
               const std::map<std::string, at::Tensor>& local) {
  const auto global = global_parameters(shape);
  EXPECT_EQ(records.size(), global.size());
  EXPECT_EQ(records.size(), local.size());
  for (const Placement& record : records) {
    const at::Tensor& tensor = local.at(record.name);
    check_placement(record, layout, rank, shape_of(tensor));
    EXPECT_EQ(record.global_shape, shape_of(global.at(record.name)));
    EXPECT_TRUE(testing::same_bits(
        tensor, cut_out(global.at(record.name), local_box(record, layout, rank))))
        << record.print();
  }
}

PlanOptions options() {
  PlanOptions options;
  options.shape = odd_shape();
  options.micro_batches = 4;
  options.seed = seed;
  return options;
}

TEST(ParameterPlacement, RecordsAreWhatThePlanHolds) {
  for (const char* text : {"dp1", "tp2", "tp3", "tp4.sp", "cp2", "cp2-ulysses", "tp2.sp.cp2-zigzag",
                           "tp2.cp2-ulysses", "dp2.tp2.zero1", "tp3.cp2.zero1"}) {
    SCOPED_TRACE(text);
    const Layout layout = parse_layout(text);
    on_thread_ranks(layout.world(), [&](Communicator& comm) {
      Mesh mesh(comm, layout);
      const auto plan = make_plan(mesh, options());
      check_all(layout, odd_shape(), comm.rank(),
                parameter_placements(layout, odd_shape(), comm.rank()), local_parameters(*plan));
    });
  }
}

TEST(ParameterPlacement, RecordsReadAsTheyPrint) {
  const Layout layout = parse_layout("tp3.cp2");
  std::map<std::string, std::string> printed;
  for (const Placement& record : parameter_placements(layout, odd_shape(), 2)) {
    printed[record.name] = record.print();
  }
  EXPECT_EQ(printed.size(), 37u);
  const std::string others = " cp:replicate dp:replicate";
  EXPECT_EQ(printed["blocks.1.attn.k.weight"],
            "blocks.1.attn.k.weight [24,24] -> [12,24] tp:shard(0, 4 pieces)" + others);
  EXPECT_EQ(printed["blocks.1.attn.proj.weight"],
            "blocks.1.attn.proj.weight [24,24] -> [24,12] tp:shard(1, 4 pieces)" + others);
  EXPECT_EQ(printed["blocks.0.mlp.down.bias"],
            "blocks.0.mlp.down.bias [24] -> [24] tp:replicate" + others);
  EXPECT_EQ(printed["head.weight"],
            "head.weight [61,24] -> [31,24] tp:shard(0, 4 pieces)" + others);
}

// A record that does not know about pieces, or a plan that cut along another dim, is found out.
TEST(ParameterPlacement, AWrongRecordOrTensorIsSeen) {
  const Layout layout = parse_layout("tp3");
  const int rank = 2;
  const auto records = parameter_placements(layout, odd_shape(), rank);
  const auto refused = [&](const std::string& name, auto spoil, std::vector<std::int64_t> real) {
    for (Placement record : records) {
      if (record.name != name) continue;
      spoil(record);
      try {
        check_placement(record, layout, rank, real);
      } catch (const Error& error) {
        return error.kind() == ErrorKind::mismatch && error.place() == name;
      }
      return false;
    }
    throw std::logic_error("no record of " + name);
  };
  const auto nothing = [](Placement&) {};
  EXPECT_FALSE(refused("head.weight", nothing, {31, 24}));
  EXPECT_TRUE(refused("head.weight", nothing, {21, 24}));  // a third of the rows
  EXPECT_TRUE(refused("head.weight", [](Placement& r) { r.axes[0].pieces = 0; }, {31, 24}));
  EXPECT_TRUE(refused("blocks.0.attn.proj.weight", nothing, {12, 24}));
  EXPECT_TRUE(refused("ln_f.bias", nothing, {12}));
}

// What a plan of this rank and these layers would hold, as its records say.
std::vector<HeldPiece> held_pieces(const Layout& layout, int rank, const LayerRange& stage) {
  std::vector<HeldPiece> held;
  for (const Placement& record : parameter_placements(layout, odd_shape(), rank)) {
    if (!holds(stage, odd_shape(), record.name)) continue;
    const AxisPlacement& tensor = record.axes[0];
    Shape first = record.local_shape;
    if (tensor.kind != AxisPlacement::Kind::shard) {
      held.push_back({record.name, -1, first});
      continue;
    }
    const auto dim = static_cast<std::size_t>(tensor.dim);  // in two pieces
    Shape second = first;
    first[dim] = 1;
    second[dim] -= 1;
    held.push_back({record.name, tensor.dim, first});
    held.push_back({record.name, tensor.dim, second});
  }
  return held;
}

TEST(ParameterPlacement, APlanThatHoldsAnythingElseIsRefused) {
  const Layout layout = parse_layout("tp2.pp2");
  constexpr int rank = 1;
  const std::vector<LayerRange> stage{{0, 1}};
  const auto right = held_pieces(layout, rank, stage[0]);
  const auto check = [&](const std::vector<HeldPiece>& held) {
    check_parameters(layout, odd_shape(), stage, rank, held);
  };
  check(right);
  const auto spoilt = [&](const auto& spoil) {
    auto held = right;
    spoil(*std::ranges::find(held, "blocks.0.attn.proj.weight", &HeldPiece::name), held);
    return held;
  };
  const std::string of = "blocks.0.attn.proj.weight [24,24] -> [24,12]";
  expect_error(ErrorKind::mismatch, {"rank 1: the tensor is [24,11]; expected [24,12] by " + of},
               [&] {
                 check(spoilt([](HeldPiece&, auto& held) {
                   std::erase_if(held, [](const HeldPiece& piece) {
                     return piece.name == "blocks.0.attn.proj.weight" && piece.shape[1] == 1;
                   });
                 }));
               });
  expect_error(ErrorKind::mismatch, {"rank 1: the tensor is [12,24]; expected [24,12] by " + of},
               [&] {
                 check(spoilt([](HeldPiece& piece, auto& held) {
                   const std::string name = piece.name;
                   std::erase_if(held, [&](const HeldPiece& each) { return each.name == name; });
                   held.push_back({name, 0, {12, 24}});
                 }));
               });
  expect_error(ErrorKind::mismatch, {"rank 1: there is no tensor; expected [24,12] by " + of}, [&] {
    check(spoilt([](HeldPiece& piece, auto& held) {
      const std::string name = piece.name;
      std::erase_if(held, [&](const HeldPiece& each) { return each.name == name; });
    }));
  });
  expect_error(ErrorKind::mismatch,
               {"blocks.1.ln1.bias", "rank 1: a tensor [24]; expected none: other stages"}, [&] {
                 check(spoilt([](HeldPiece&, auto& held) {
                   held.push_back({"blocks.1.ln1.bias", -1, {24}});
                 }));
               });
}

}  // namespace
}  // namespace shardproof
