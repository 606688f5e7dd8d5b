// conformance_semantics: groups, asynchronous calls, deadlines, revocation, agreement. Bodies are
// called by every rank of `comm`, and leave it healthy: what they break is a child. For tests.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include "comm/conformance_values.h"

namespace shardproof::conformance {

inline constexpr Duration short_wait = std::chrono::milliseconds(50);

inline Deadline patience() {
  return Deadline::after(std::chrono::seconds(20));
}

inline std::unique_ptr<Communicator> child_of(Communicator& comm, const std::string& label) {
  return comm.split(0, 0, label, patience());
}

inline Call sum_call(const std::int64_t* send, std::int64_t* recv, std::size_t count) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.dtype = Dtype::i64;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

inline Call message(CallKind kind, void* data, std::size_t bytes, int peer, int tag) {
  Call call;
  call.kind = kind;
  call.dtype = Dtype::u8;
  if (kind == CallKind::send) {
    call.send = data;
  } else {
    call.recv = data;
  }
  call.count = bytes;
  call.peer = peer;
  call.tag = tag;
  return call;
}

// The sum over ranks of (rank + 1) * factor, by a call, compared.
inline void expect_working(Communicator& comm, std::int64_t factor) {
  std::int64_t value = (comm.rank() + 1) * factor, sum = 0;
  all_reduce(comm, &value, &sum, 1, Dtype::i64, ReduceOp::sum);
  EXPECT_EQ(sum, factor * comm.size() * (comm.size() + 1) / 2) << comm.group().name;
}

// ---- groups ----
inline void splits_by_color_and_key(Communicator& comm, const Backend&) {
  const int color = comm.rank() % 2;
  auto half = comm.split(color, -comm.rank(), "half", patience());
  ASSERT_NE(half, nullptr);
  std::vector<int> members;  // descending: the key is the negated rank
  for (int r = comm.size() - 1; r >= 0; --r) {
    if (r % 2 == color) members.push_back(comm.group().world_ranks[static_cast<std::size_t>(r)]);
  }
  EXPECT_EQ(half->group().world_ranks, members);
  EXPECT_EQ(half->size(), static_cast<int>(members.size()));
  EXPECT_EQ(members[static_cast<std::size_t>(half->rank())],
            comm.group().world_ranks[static_cast<std::size_t>(comm.rank())]);
  const auto names = all_gather_text(*half, half->group().name);
  for (const auto& name : names) EXPECT_EQ(name, half->group().name);
  EXPECT_EQ(half->timeout(), comm.timeout());
  expect_working(*half, 3);

  auto nested = half->split(0, half->rank(), "nested", patience());
  ASSERT_NE(nested, nullptr);
  EXPECT_EQ(nested->rank(), half->rank());
  expect_working(*nested, 5);
  expect_working(comm, 7);
}

inline void splits_without_some_ranks(Communicator& comm, const Backend&) {
  auto others = comm.split(comm.rank() == 0 ? -1 : 4, 0, "others", patience());
  EXPECT_EQ(others == nullptr, comm.rank() == 0);
  if (others != nullptr) {
    EXPECT_EQ(others->size(), comm.size() - 1);
    expect_working(*others, 2);
  }
  expect_working(comm, 2);
}

inline void names_are_unique(Communicator& comm, const Backend&) {
  auto first = child_of(comm, "twice");
  auto second = child_of(comm, "twice");
  EXPECT_EQ(first->group().name, child_name(comm.group().name, "twice", 0, 0));
  EXPECT_EQ(second->group().name, child_name(comm.group().name, "twice", 1, 0));
  expect_working(*second, 1);
  expect_working(*first, 1);
}

// ---- asynchronous calls ----
inline void started_calls_interleave_with_run(Communicator& comm, const Backend&) {
  constexpr std::size_t calls = 6, count = 3000;
  using Buffers = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::vector<std::shared_ptr<Buffers>> buffers;
  std::vector<std::unique_ptr<Work>> works;
  for (std::size_t c = 0; c < calls; ++c) {
    auto data = std::make_shared<Buffers>(std::vector<std::int64_t>(count),
                                          std::vector<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      data->first[i] = static_cast<std::int64_t>(i + c) * (comm.rank() + 1);
    }
    works.push_back(comm.start(sum_call(data->first.data(), data->second.data(), count), data));
    buffers.push_back(std::move(data));
    if (c % 2 == 1) expect_working(comm, static_cast<std::int64_t>(c));
  }
  const std::int64_t factor = comm.size() * (comm.size() + 1) / 2;
  for (std::size_t c = calls; c-- > 0;) {  // the last first: the others must be done by then
    works[c]->wait(patience());
    works[c]->wait(patience());  // may be repeated
    EXPECT_TRUE(works[c]->done());
    for (std::size_t earlier = 0; earlier < c; ++earlier) EXPECT_TRUE(works[earlier]->done());
    std::vector<std::int64_t> wanted(count);
    for (std::size_t i = 0; i < count; ++i) wanted[i] = static_cast<std::int64_t>(i + c) * factor;
    EXPECT_EQ(buffers[c]->second, wanted) << "call " << c;
  }
}

inline void unfinished_work_keeps_its_buffers(Communicator& comm, const Backend&) {
  if (comm.size() < 2) return;
  std::uint8_t go = 1;
  auto result = std::make_shared<std::vector<std::int64_t>>(2, comm.rank());
  const std::weak_ptr<std::vector<std::int64_t>> watched = result;
  std::int64_t* data = result->data();
  if (comm.rank() != 0) recv(comm, &go, 1, Dtype::u8, 0, 1);
  auto work = comm.start(sum_call(data, data, 2), std::move(result));
  if (comm.rank() == 0) {  // nobody else has joined yet
    EXPECT_FALSE(work->done());
    EXPECT_FALSE(watched.expired());
    for (int r = 1; r < comm.size(); ++r) send(comm, &go, 1, Dtype::u8, r, 1);
  }
  work->wait(patience());
  work.reset();
  EXPECT_TRUE(watched.expired());
}

inline void destroying_unfinished_work_waits(Communicator& comm, const Backend&) {
  std::int64_t value = comm.rank(), sum = -1;
  comm.start(sum_call(&value, &sum, 1), nullptr).reset();
  EXPECT_EQ(sum, comm.size() * (comm.size() - 1) / 2);
}

// Two ranks each start a send and run a recv; messages of other tags, and a collective that was
// started before, do not hold them up.
inline void messages_wait_for_nobody_else(Communicator& comm, const Backend&) {
  const int peer = comm.rank() ^ 1;
  std::int64_t value = comm.rank(), sum = -1;
  std::unique_ptr<Work> collective;
  if (comm.rank() != 0) collective = comm.start(sum_call(&value, &sum, 1), nullptr);
  if (peer < comm.size()) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, std::size_t{3} << 20}) {
      const auto mine = static_cast<std::uint8_t>(comm.rank() + 1);
      const auto theirs = static_cast<std::uint8_t>(peer + 1);
      std::vector<std::uint8_t> a(bytes, mine), b(bytes, static_cast<std::uint8_t>(mine + 100));
      std::vector<std::uint8_t> from_a(bytes), from_b(bytes);
      auto send_a = comm.start(message(CallKind::send, a.data(), bytes, peer, 1), nullptr);
      auto send_b = comm.start(message(CallKind::send, b.data(), bytes, peer, 2), nullptr);
      comm.run(message(CallKind::recv, from_b.data(), bytes, peer, 2), patience());
      auto recv_a = comm.start(message(CallKind::recv, from_a.data(), bytes, peer, 1), nullptr);
      recv_a->wait(patience());
      send_a->wait(patience());
      send_b->wait(patience());
      EXPECT_EQ(from_a, std::vector<std::uint8_t>(bytes, theirs));
      EXPECT_EQ(from_b, std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(theirs + 100)));
    }
  }
  if (comm.rank() == 0) collective = comm.start(sum_call(&value, &sum, 1), nullptr);
  collective->wait(patience());
  EXPECT_EQ(sum, comm.size() * (comm.size() - 1) / 2);
}

inline void messages_of_one_tag_keep_their_order(Communicator& comm, const Backend&) {
  constexpr std::uint8_t messages = 20;
  std::vector<std::uint8_t> values(messages);
  std::vector<std::unique_ptr<Work>> works;
  if (comm.rank() == 0 && comm.size() > 1) {
    std::iota(values.begin(), values.end(), std::uint8_t{0});
    for (auto& value : values) {
      works.push_back(comm.start(message(CallKind::send, &value, 1, 1, 3), nullptr));
    }
  } else if (comm.rank() == 1) {
    for (auto& value : values) {
      works.push_back(comm.start(message(CallKind::recv, &value, 1, 0, 3), nullptr));
    }
  }
  for (auto& work : works) work->wait(patience());
  if (comm.rank() != 1) return;
  for (std::uint8_t i = 0; i < messages; ++i) EXPECT_EQ(values[i], i);
}

// ---- failures, each on a child ----
inline void a_late_peer_is_a_timeout_and_poisons(Communicator& comm, const Backend&) {
  if (comm.size() < 2) return;
  auto inline_child = child_of(comm, "late");
  auto started_child = child_of(comm, "late");
  if (comm.rank() == 0) {
    EXPECT_FALSE(inline_child->poisoned());
    std::vector<std::int64_t> data(1000);
    const Call call = sum_call(data.data(), data.data(), data.size());
    EXPECT_EQ(kind_of_error([&] { inline_child->run(call, Deadline::after(short_wait)); }, "run"),
              ErrorKind::timeout);
    EXPECT_TRUE(inline_child->poisoned());
    EXPECT_EQ(kind_of_error([&] { inline_child->run(call, patience()); }, "after a timeout"),
              ErrorKind::revoked);

    auto work = started_child->start(call, nullptr);
    EXPECT_EQ(kind_of_error([&] { work->wait(Deadline::after(short_wait)); }, "wait"),
              ErrorKind::timeout);
    EXPECT_TRUE(started_child->poisoned());
    EXPECT_EQ(kind_of_error([&] { started_child->run(call, patience()); }, "after a timeout"),
              ErrorKind::revoked);
  }
  barrier(comm);  // until here nobody else used the children
  EXPECT_FALSE(comm.poisoned());
  expect_working(comm, 1);
}

inline void a_message_nobody_takes_is_a_timeout(Communicator& comm, const Backend&) {
  if (comm.size() < 2) return;
  auto child = child_of(comm, "untaken");
  if (comm.rank() == 0) {
    std::uint8_t byte = 0;
    const Call call = message(CallKind::recv, &byte, 1, 1, 0);
    EXPECT_EQ(kind_of_error([&] { child->run(call, Deadline::after(short_wait)); }, "recv"),
              ErrorKind::timeout);
    EXPECT_TRUE(child->poisoned());
  }
  barrier(comm);
}

inline void abort_ends_what_is_under_way(Communicator& comm, const Backend&) {
  if (comm.size() < 2) return;
  auto child = child_of(comm, "aborted");
  if (comm.rank() == 0) {
    std::vector<std::int64_t> data(1000, 1);
    std::uint8_t byte = 0;
    auto sum = child->start(sum_call(data.data(), data.data(), data.size()), nullptr);
    auto receive = child->start(message(CallKind::recv, &byte, 1, 1, 0), nullptr);
    child->abort();
    EXPECT_TRUE(child->poisoned());
    EXPECT_TRUE(sum->done());
    EXPECT_TRUE(receive->done());
    EXPECT_EQ(kind_of_error([&] { sum->wait(patience()); }, "wait"), ErrorKind::revoked);
    EXPECT_EQ(kind_of_error([&] { receive->wait(patience()); }, "wait"), ErrorKind::revoked);
  }
  barrier(comm);
}

// The last rank revokes the parent while the others wait, or are about to wait, in the child.
inline void revoking_the_parent_releases_the_child(Communicator& comm, const Backend&) {
  if (comm.size() < 2) return;
  for (const bool started : {false, true}) {
    auto parent = child_of(comm, "revoked");
    auto child = child_of(*parent, "child");
    if (comm.rank() == comm.size() - 1) {
      parent->revoke();
    } else {
      const auto wait = [&] {
        if (started) return child->start(Call{}, nullptr)->wait(patience());
        child->run(Call{}, patience());
      };
      EXPECT_EQ(kind_of_error(wait, "a barrier in the child"), ErrorKind::revoked);
    }
    EXPECT_TRUE(child->poisoned());
    EXPECT_TRUE(parent->poisoned() || comm.rank() != comm.size() - 1);
    EXPECT_EQ(kind_of_error([&] { barrier(*child); }, "the child"), ErrorKind::revoked);
    EXPECT_EQ(kind_of_error([&] { parent->run(Call{}, patience()); }, "the parent"),
              ErrorKind::revoked);
    EXPECT_TRUE(parent->failed_ranks().empty());
  }
  expect_working(comm, 1);
}

inline void agreement_is_the_or_of_all(Communicator& comm, const Backend& backend) {
  const auto bit = std::uint64_t{1} << (comm.rank() * 5);
  std::uint64_t all = 0;
  for (int r = 0; r < comm.size(); ++r) all |= std::uint64_t{1} << (r * 5);
  EXPECT_EQ(comm.agree(bit, patience()), all);
  EXPECT_EQ(comm.agree(0, patience()), 0u);
  if (!backend.recovers) return;
  auto child = child_of(comm, "agrees");
  if (comm.rank() == 0) child->revoke();
  EXPECT_EQ(child->agree(bit, patience()), all);
}

inline void shrink_makes_a_working_group(Communicator& comm, const Backend& backend) {
  if (!backend.recovers) return;
  auto child = child_of(comm, "broken");
  if (comm.rank() == comm.size() - 1) child->revoke();
  auto survivors = child->shrink("survivors", patience());
  ASSERT_NE(survivors, nullptr);
  EXPECT_EQ(survivors->group().world_ranks, comm.group().world_ranks);
  EXPECT_EQ(survivors->group().name, child_name(child->group().name, "survivors", 0, -1));
  EXPECT_EQ(survivors->rank(), comm.rank());
  EXPECT_FALSE(survivors->poisoned());
  expect_working(*survivors, 9);
}

}  // namespace shardproof::conformance
