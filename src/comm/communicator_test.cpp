// ctest: unit
// The shapes of calls: counts, what no group could make, names.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <array>

namespace shardproof {
namespace {

Call shape(CallKind kind) {
  Call call;
  call.kind = kind;
  call.count = 10;
  call.peer = 1;
  call.send_counts = {1, 2, 3};
  call.recv_counts = {4, 0, 6};
  return call;
}

TEST(Call, CountsWhatARankSendsAndReceives) {
  struct Row {
    CallKind kind;
    std::array<std::size_t, 3> send, recv;  // of ranks 0, 1, 2; rank 1 is the root
  };
  const Row rows[] = {
      {CallKind::broadcast, {0, 10, 0}, {10, 10, 10}},
      {CallKind::reduce, {10, 10, 10}, {0, 10, 0}},
      {CallKind::all_reduce, {10, 10, 10}, {10, 10, 10}},
      {CallKind::reduce_scatter, {10, 10, 10}, {4, 0, 6}},
      {CallKind::all_gather, {4, 0, 6}, {10, 10, 10}},
      {CallKind::all_to_all, {6, 6, 6}, {10, 10, 10}},
      {CallKind::send, {10, 10, 10}, {0, 0, 0}},
      {CallKind::recv, {0, 0, 0}, {10, 10, 10}},
      {CallKind::barrier, {0, 0, 0}, {0, 0, 0}},
  };
  for (const Row& row : rows) {
    const Call call = shape(row.kind);
    for (int rank = 0; rank < 3; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_EQ(call.send_elements(rank), row.send[r]) << name(row.kind) << " rank " << rank;
      EXPECT_EQ(call.recv_elements(rank), row.recv[r]) << name(row.kind) << " rank " << rank;
    }
  }
}

TEST(Names, AreThoseOfTraces) {
  EXPECT_EQ(name(CallKind::reduce_scatter), "reduce_scatter");
  EXPECT_EQ(name(CallKind::barrier), "barrier");
  EXPECT_EQ(name(ReduceOp::bit_or), "bit_or");
  EXPECT_EQ(name(ReduceOp::sum), "sum");
}

TEST(Names, OfChildrenTellRepeatsAndColorsApart) {
  EXPECT_EQ(child_name("world", "dp", 0, 0), "world/dp.0");
  EXPECT_EQ(child_name("world", "dp", 0, 12), "world/dp.12");
  EXPECT_EQ(child_name("world/dp.0", "tp", 1, 3), "world/dp.0/tp~1.3");
  EXPECT_EQ(child_name("world", "survivors", 0, -1), "world/survivors");
}

class Validate : public testing::Test {
 protected:
  float data_[32] = {};

  Call all_reduce(float* send, float* recv) const {
    Call call;
    call.kind = CallKind::all_reduce;
    call.send = send;
    call.recv = recv;
    call.count = 10;
    return call;
  }
};

TEST_F(Validate, AcceptsInPlaceAndApart) {
  validate(all_reduce(data_, data_), 0, 3);
  validate(all_reduce(data_, data_ + 10), 0, 3);

  Call scatter;
  scatter.kind = CallKind::reduce_scatter;
  scatter.recv_counts = {4, 0, 6};
  scatter.send = data_;
  scatter.recv = data_ + 4;
  validate(scatter, 2, 3);

  Call gather;
  gather.kind = CallKind::all_gather;
  gather.recv_counts = {4, 0, 6};
  gather.send = data_ + 4;
  gather.recv = data_;
  validate(gather, 2, 3);
}

TEST_F(Validate, AcceptsNullBuffersOfNothing) {
  Call call = all_reduce(nullptr, nullptr);
  call.count = 0;
  validate(call, 0, 1);
  validate(Call{}, 0, 1);
}

using ValidateDeathTest = Validate;

TEST_F(ValidateDeathTest, RefusesOverlapThatIsNotInPlace) {
  EXPECT_DEATH(validate(all_reduce(data_, data_ + 1), 0, 3), "overlap");
  Call scatter;
  scatter.kind = CallKind::reduce_scatter;
  scatter.recv_counts = {4, 0, 6};
  scatter.send = data_;
  scatter.recv = data_;  // the share of rank 0, not of rank 2
  EXPECT_DEATH(validate(scatter, 2, 3), "overlap");
}

TEST_F(ValidateDeathTest, RefusesMissingBuffers) {
  EXPECT_DEATH(validate(all_reduce(nullptr, data_), 0, 3), "no send buffer");
  EXPECT_DEATH(validate(all_reduce(data_, nullptr), 0, 3), "no receive buffer");
  Call broadcast;
  broadcast.kind = CallKind::broadcast;
  broadcast.count = 1;
  broadcast.peer = 0;
  EXPECT_DEATH(validate(broadcast, 1, 3), "no broadcast buffer");
}

TEST_F(ValidateDeathTest, RefusesCountsOfAnotherGroup) {
  Call call;
  call.kind = CallKind::all_gather;
  call.recv_counts = {1, 1};
  EXPECT_DEATH(validate(call, 0, 3), "2 vs 3");
  call.kind = CallKind::all_to_all;
  call.recv_counts = {0, 0, 0};
  EXPECT_DEATH(validate(call, 0, 3), "0 vs 3");
}

TEST_F(ValidateDeathTest, RefusesPeersAndTagsOutsideTheirRange) {
  Call call;
  call.kind = CallKind::broadcast;
  call.peer = 3;
  EXPECT_DEATH(validate(call, 0, 3), "3 vs 3");
  call.peer = -1;
  EXPECT_DEATH(validate(call, 0, 3), "0 vs -1");
  call.kind = CallKind::send;
  call.peer = 1;
  EXPECT_DEATH(validate(call, 1, 3), "no message to itself");
  call.tag = 1 << 20;
  EXPECT_DEATH(validate(call, 0, 3), "1048576");
  call.tag = -1;
  EXPECT_DEATH(validate(call, 0, 3), "0 vs -1");
}

TEST_F(ValidateDeathTest, RefusesBitOrOfFloats) {
  Call call = all_reduce(data_, data_);
  call.op = ReduceOp::bit_or;
  EXPECT_DEATH(validate(call, 0, 3), "bit_or is for integers");
  call.dtype = Dtype::u8;
  validate(call, 0, 3);
}

}  // namespace
}  // namespace shardproof
