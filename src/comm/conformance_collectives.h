// conformance_collectives: every kind of call, dtype, op, size and placing of buffers, against
// results computed from the definition. Bodies are called by every rank of `comm`. For tests.
#pragma once

#include <utility>

#include "comm/conformance_values.h"

namespace shardproof::conformance {

inline Call make(CallKind kind, Dtype dtype, std::size_t count, ReduceOp op = ReduceOp::sum) {
  Call call;
  call.kind = kind;
  call.dtype = dtype;
  call.count = count;
  call.op = op;
  return call;
}

// The reduction of element `i` over all ranks, where rank r holds integer_at(i, r).
inline int reduced(std::size_t i, int ranks, ReduceOp op) {
  int value = integer_at(i, 0);
  for (int r = 1; r < ranks; ++r) value = combined(op, value, integer_at(i, r));
  return value;
}

inline Array mine(const Communicator& comm, Dtype dtype, std::size_t count) {
  Array array(dtype, count);
  array.fill(0, count, [&](std::size_t i) { return integer_at(i, comm.rank()); });
  return array;
}

inline Array sum_of_all(const Communicator& comm, Dtype dtype, std::size_t count, ReduceOp op) {
  Array array(dtype, count);
  array.fill(0, count, [&](std::size_t i) { return reduced(i, comm.size(), op); });
  return array;
}

// Unequal shares, one of them zero, in units.
inline std::vector<std::size_t> unequal_counts(int ranks, std::size_t unit) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < ranks; ++r)
    counts.push_back(static_cast<std::size_t>((r * 3 + 2) % 5) * unit);
  return counts;
}

inline std::size_t total(const std::vector<std::size_t>& counts, int upto) {
  std::size_t sum = 0;
  for (int r = 0; r < upto; ++r) sum += counts[static_cast<std::size_t>(r)];
  return sum;
}

inline void check_broadcast(Communicator& comm, const Backend& backend, Dtype dtype,
                            std::size_t count) {
  for (int root = 0; root < comm.size(); ++root) {
    Call call = make(CallKind::broadcast, dtype, count);
    call.peer = root;
    Array data = mine(comm, dtype, count);
    call.recv = data.data();
    run_counted(comm, backend, call);
    Array wanted(dtype, count);
    wanted.fill(0, count, [&](std::size_t i) { return integer_at(i, root); });
    data.expect_equal(wanted, describe(comm, call, count, true));
  }
}

inline void check_reduce(Communicator& comm, const Backend& backend, Dtype dtype, ReduceOp op,
                         std::size_t count, bool in_place) {
  const int root = comm.size() - 1;
  Call call = make(CallKind::reduce, dtype, count, op);
  call.peer = root;
  Array send = mine(comm, dtype, count);
  Array recv(dtype, count);
  call.send = send.data();
  call.recv = in_place ? send.data() : recv.data();
  run_counted(comm, backend, call);
  if (comm.rank() != root) return;
  (in_place ? send : recv)
      .expect_equal(sum_of_all(comm, dtype, count, op), describe(comm, call, count, in_place));
}

inline void check_all_reduce(Communicator& comm, const Backend& backend, Dtype dtype, ReduceOp op,
                             std::size_t count, bool in_place) {
  Call call = make(CallKind::all_reduce, dtype, count, op);
  Array send = mine(comm, dtype, count);
  Array recv(dtype, count);
  call.send = send.data();
  call.recv = in_place ? send.data() : recv.data();
  run_counted(comm, backend, call);
  const std::string what = describe(comm, call, count, in_place);
  (in_place ? send : recv).expect_equal(sum_of_all(comm, dtype, count, op), what);
  if (!in_place) send.expect_equal(mine(comm, dtype, count), what + ", its input");
}

inline void check_reduce_scatter(Communicator& comm, const Backend& backend, Dtype dtype,
                                 ReduceOp op, const std::vector<std::size_t>& counts,
                                 bool in_place) {
  const std::size_t all = total(counts, comm.size());
  const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
  const std::size_t offset = total(counts, comm.rank());
  Call call = make(CallKind::reduce_scatter, dtype, 0, op);
  call.recv_counts = counts;
  Array send = mine(comm, dtype, all);
  Array recv(dtype, own);
  call.send = send.data();
  call.recv = in_place ? send.at(offset) : recv.data();
  run_counted(comm, backend, call);
  if (in_place) std::memcpy(recv.data(), send.at(offset), own * size_of(dtype));
  Array wanted(dtype, own);
  wanted.fill(0, own, [&](std::size_t i) { return reduced(offset + i, comm.size(), op); });
  recv.expect_equal(wanted, describe(comm, call, own, in_place));
}

inline void check_all_gather(Communicator& comm, const Backend& backend, Dtype dtype,
                             const std::vector<std::size_t>& counts, bool in_place) {
  const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
  const std::size_t offset = total(counts, comm.rank());
  Call call = make(CallKind::all_gather, dtype, 0);
  call.recv_counts = counts;
  Array send = mine(comm, dtype, own);
  Array recv(dtype, total(counts, comm.size()));
  if (in_place) std::memcpy(recv.at(offset), send.data(), own * size_of(dtype));
  call.send = in_place ? recv.at(offset) : send.data();
  call.recv = recv.data();
  run_counted(comm, backend, call);
  Array wanted(dtype, recv.count());
  for (int r = 0; r < comm.size(); ++r) {
    wanted.fill(total(counts, r), counts[static_cast<std::size_t>(r)],
                [&](std::size_t i) { return integer_at(i, r); });
  }
  recv.expect_equal(wanted, describe(comm, call, recv.count(), in_place));
}

// `unit` elements times something that depends on both ranks, at times nothing.
inline void check_all_to_all(Communicator& comm, const Backend& backend, Dtype dtype,
                             std::size_t unit, bool equal) {
  const auto count_of = [&](int from, int to) {
    return equal ? unit : static_cast<std::size_t>((from + 2 * to) % 4) * unit;
  };
  const auto value_of = [](int from, int to, std::size_t i) {
    return integer_at(i, from * 17 + to);
  };
  const int me = comm.rank();
  Call call = make(CallKind::all_to_all, dtype, 0);
  for (int r = 0; r < comm.size(); ++r) {
    call.send_counts.push_back(count_of(me, r));
    call.recv_counts.push_back(count_of(r, me));
  }
  Array send(dtype, total(call.send_counts, comm.size()));
  Array recv(dtype, total(call.recv_counts, comm.size()));
  Array wanted(dtype, recv.count());
  for (int r = 0; r < comm.size(); ++r) {
    send.fill(total(call.send_counts, r), count_of(me, r),
              [&](std::size_t i) { return value_of(me, r, i); });
    wanted.fill(total(call.recv_counts, r), count_of(r, me),
                [&](std::size_t i) { return value_of(r, me, i); });
  }
  call.send = send.data();
  call.recv = recv.data();
  run_counted(comm, backend, call);
  recv.expect_equal(wanted, describe(comm, call, recv.count(), false));

  // The own part may stay where it is: the others' then close up.
  const auto own = static_cast<std::size_t>(me);
  const std::size_t left_out = std::exchange(call.recv_counts[own], 0);
  Array others(dtype, recv.count() - left_out);
  Array wanted_others(dtype, others.count());
  for (int r = 0; r < comm.size(); ++r) {
    if (r == me) continue;
    wanted_others.fill(total(call.recv_counts, r), count_of(r, me),
                       [&](std::size_t i) { return value_of(r, me, i); });
  }
  call.recv = others.data();
  run_counted(comm, backend, call);
  others.expect_equal(wanted_others, describe(comm, call, others.count(), false));
}

// Around the ring, the odd and the even ranks in opposite order.
inline void check_messages(Communicator& comm, const Backend& backend, Dtype dtype,
                           std::size_t count) {
  if (comm.size() < 2) return;
  const int next = (comm.rank() + 1) % comm.size();
  const int previous = (comm.rank() + comm.size() - 1) % comm.size();
  Array data = mine(comm, dtype, count);
  Array arrived(dtype, count);
  Call send = make(CallKind::send, dtype, count);
  send.send = data.data();
  send.peer = next;
  send.tag = 7;
  Call recv = make(CallKind::recv, dtype, count);
  recv.recv = arrived.data();
  recv.peer = previous;
  recv.tag = 7;
  // Rank 0 receives last, so the ring always has somebody who can move.
  run_counted(comm, backend, comm.rank() == 0 ? send : recv);
  run_counted(comm, backend, comm.rank() == 0 ? recv : send);
  Array wanted(dtype, count);
  wanted.fill(0, count, [&](std::size_t i) { return integer_at(i, previous); });
  arrived.expect_equal(wanted, describe(comm, recv, count, false));
}

inline void check_everything(Communicator& comm, const Backend& backend, Dtype dtype, ReduceOp op,
                             std::size_t count) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::vector<std::size_t> equal(ranks, count / ranks);
  const std::vector<std::size_t> unequal = unequal_counts(comm.size(), count / (2 * ranks) + 1);
  const std::vector<std::size_t> nothing(ranks, 0);
  for (const bool in_place : {false, true}) {
    check_reduce(comm, backend, dtype, op, count, in_place);
    check_all_reduce(comm, backend, dtype, op, count, in_place);
    for (const auto& counts : {equal, unequal, nothing}) {
      check_reduce_scatter(comm, backend, dtype, op, counts, in_place);
      if (op == ReduceOp::sum) check_all_gather(comm, backend, dtype, counts, in_place);
    }
  }
  if (op != ReduceOp::sum) return;
  check_broadcast(comm, backend, dtype, count);
  check_all_to_all(comm, backend, dtype, count / ranks, true);
  check_all_to_all(comm, backend, dtype, count / ranks, false);
  check_messages(comm, backend, dtype, count);
}

// ---- bodies ----
inline void small_calls(Communicator& comm, const Backend& backend) {
  for (const Dtype dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      if (!allowed(op, dtype)) continue;
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, small_count()}) {
        check_everything(comm, backend, dtype, op, count);
      }
    }
  }
}

inline void large_calls(Communicator& comm, const Backend& backend) {
  for (const Dtype dtype : all_dtypes) {
    check_everything(comm, backend, dtype, ReduceOp::sum, large_count(dtype));
  }
}

// Nobody leaves before the last rank has entered: it enters after a message that rank 0 sends when
// it has looked at its own, started, barrier for a while.
inline void barriers_hold_back(Communicator& comm, const Backend& backend) {
  for (int round = 0; round < 100; ++round) run_counted(comm, backend, Call{});
  if (comm.size() < 2) return;
  const int last = comm.size() - 1;
  std::uint8_t go = 1;
  if (comm.rank() == last) recv(comm, &go, 1, Dtype::u8, 0, 0);
  auto work = comm.start(Call{}, nullptr);
  if (comm.rank() == 0) {
    const Deadline look = Deadline::after(std::chrono::milliseconds(20));
    while (!look.expired()) ASSERT_FALSE(work->done());
    send(comm, &go, 1, Dtype::u8, last, 0);
  }
  work->wait(default_deadline(comm));
  EXPECT_TRUE(work->done());
}

inline void reduce_scatter_then_gather_is_all_reduce(Communicator& comm, const Backend&) {
  const auto counts = unequal_counts(comm.size(), 13);
  const std::size_t all = total(counts, comm.size());
  std::vector<double> input(all), share(all), gathered(all);
  for (std::size_t i = 0; i < all; ++i) {
    input[i] = integer_at(i, comm.rank()) * 0.125;
  }
  reduce_scatter_v(comm, input.data(), share.data(), counts, Dtype::f64, ReduceOp::sum);
  all_gather_v(comm, share.data(), gathered.data(), counts, Dtype::f64);
  std::vector<double> reduced_all(all);
  all_reduce(comm, input.data(), reduced_all.data(), all, Dtype::f64, ReduceOp::sum);
  EXPECT_EQ(std::memcmp(gathered.data(), reduced_all.data(), all * sizeof(double)), 0);
}

// <RS x, y> = <x, AG y> over all ranks, in integers: the two are each other's transpose.
inline void scatter_and_gather_are_transposes(Communicator& comm, const Backend&) {
  const auto counts = unequal_counts(comm.size(), 7);
  const std::size_t all = total(counts, comm.size());
  const std::size_t own = counts[static_cast<std::size_t>(comm.rank())];
  std::vector<std::int64_t> x(all), scattered(own), y(own), gathered(all);
  for (std::size_t i = 0; i < all; ++i) x[i] = integer_at(i, comm.rank() + 3) - 5;
  for (std::size_t i = 0; i < own; ++i) y[i] = integer_at(i, comm.rank() + 40) - 5;
  reduce_scatter_v(comm, x.data(), scattered.data(), counts, Dtype::i64, ReduceOp::sum);
  all_gather_v(comm, y.data(), gathered.data(), counts, Dtype::i64);
  std::int64_t products[2] = {0, 0};
  for (std::size_t i = 0; i < own; ++i) products[0] += scattered[i] * y[i];
  for (std::size_t i = 0; i < all; ++i) products[1] += x[i] * gathered[i];
  all_reduce(comm, products, products, 2, Dtype::i64, ReduceOp::sum);
  EXPECT_EQ(products[0], products[1]);
}

inline void texts_of_any_length(Communicator& comm, const Backend&) {
  const auto text_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 3), static_cast<char>('a' + rank));
  };
  const auto texts = all_gather_text(comm, text_of(comm.rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(comm.size()));
  for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(texts[static_cast<std::size_t>(r)], text_of(r));
}

}  // namespace shardproof::conformance
