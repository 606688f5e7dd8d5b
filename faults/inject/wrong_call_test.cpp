// ctest: unit timeout=60
#include "faults/inject/wrong_call.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace shardproof {
namespace {

constexpr FaultKind kinds[] = {FaultKind::dtype, FaultKind::count, FaultKind::split,
                               FaultKind::op,    FaultKind::root,  FaultKind::tag};

Call any_call(int rank, int size) {
  Call call;
  call.kind = static_cast<CallKind>(*rc::gen::inRange(0, 9));
  call.dtype = static_cast<Dtype>(*rc::gen::inRange(0, 7));
  call.count = *rc::gen::inRange<std::size_t>(0, 5);
  const auto counts = [&] {
    std::vector<std::size_t> out(static_cast<std::size_t>(size));
    for (std::size_t& count : out) count = *rc::gen::inRange<std::size_t>(0, 4);
    return out;
  };
  if (call.kind == CallKind::all_to_all) call.send_counts = counts();
  if (call.kind == CallKind::all_to_all || call.kind == CallKind::all_gather ||
      call.kind == CallKind::reduce_scatter) {
    call.recv_counts = counts();
    call.count = 0;
  }
  if (call.kind == CallKind::barrier) call.count = 0;
  call.peer = *rc::gen::inRange(0, size);
  if (call.kind == CallKind::send || call.kind == CallKind::recv) call.peer = (rank + 1) % size;
  return call;
}

RC_GTEST_PROP(WrongCall, DiffersAndStaysInsideTheBuffers, ()) {
  const int size = *rc::gen::inRange(2, 5), rank = *rc::gen::inRange(0, size);
  const Call right = any_call(rank, size);
  for (const FaultKind kind : kinds) {
    const auto wrong = wrong_call(kind, right, rank, size);
    if (!wrong) continue;
    RC_ASSERT(!same_contract(*wrong, right));
    RC_ASSERT(size_of(wrong->dtype) == size_of(right.dtype));
    RC_ASSERT(wrong->send_elements(rank) <= right.send_elements(rank) || kind == FaultKind::root);
    RC_ASSERT(wrong->recv_elements(rank) <= right.recv_elements(rank) || kind == FaultKind::root);
    const ScratchCall scratch = on_scratch(*wrong, rank);
    validate(scratch.call, rank, size);  // a group of this size could make it
  }
}

TEST(WrongCall, ABarrierHasNothingThatCouldBeWrong) {
  for (const FaultKind kind : kinds) EXPECT_FALSE(wrong_call(kind, Call{}, 0, 2).has_value());
}

TEST(WrongCall, FlipsOneBitAndFlipsItBack) {
  for (std::size_t bytes = 1; bytes < 40; ++bytes) {
    for (int bit = 0; bit < 32; ++bit) {
      std::vector<unsigned char> data(bytes, 0x5a);
      flip_bit(data.data(), bytes, bit);
      int changed = 0;
      for (const unsigned char byte : data) changed += __builtin_popcount(byte ^ 0x5aU);
      EXPECT_EQ(changed, 1) << bytes << " " << bit;
      flip_bit(data.data(), bytes, bit);
      EXPECT_EQ(data, std::vector<unsigned char>(bytes, 0x5a));
    }
  }
}

}  // namespace
}  // namespace shardproof
