// communicator: names, the shape rules of calls, and the calls spelled as functions.
#include "comm/communicator.h"

#include <functional>
#include <numeric>

#include "base/check.h"

namespace shardproof {

namespace {

std::size_t sum(const std::vector<std::size_t>& counts, std::size_t upto) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(upto),
                         std::size_t{0});
}

std::size_t sum(const std::vector<std::size_t>& counts) {
  return sum(counts, counts.size());
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  if (a_bytes == 0 || b_bytes == 0) return false;
  const auto* a_begin = static_cast<const std::byte*>(a);
  const auto* b_begin = static_cast<const std::byte*>(b);
  const std::less<const std::byte*> before;
  return before(a_begin, b_begin + b_bytes) && before(b_begin, a_begin + a_bytes);
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::bf16 || dtype == Dtype::f16;
}

bool in_place(const Call& call, int rank) {
  const std::size_t width = size_of(call.dtype);
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* recv = static_cast<const std::byte*>(call.recv);
  switch (call.kind) {
    case CallKind::reduce:
    case CallKind::all_reduce:
      return send == recv;
    case CallKind::reduce_scatter:
      return recv == send + sum(call.recv_counts, static_cast<std::size_t>(rank)) * width;
    case CallKind::all_gather:
      return send == recv + sum(call.recv_counts, static_cast<std::size_t>(rank)) * width;
    default:
      return false;
  }
}

void validate_counts(const Call& call, std::size_t size) {
  if (call.kind == CallKind::all_to_all) SP_CHECK_EQ(call.send_counts.size(), size);
  if (call.kind == CallKind::all_to_all || call.kind == CallKind::all_gather ||
      call.kind == CallKind::reduce_scatter) {
    SP_CHECK_EQ(call.recv_counts.size(), size);
  }
}

void validate_peer(const Call& call, int rank, int size) {
  const bool message = call.kind == CallKind::send || call.kind == CallKind::recv;
  if (message || call.kind == CallKind::broadcast || call.kind == CallKind::reduce) {
    SP_CHECK_LE(0, call.peer);
    SP_CHECK_LT(call.peer, size);
  }
  if (message) {
    SP_CHECK(call.peer != rank, "a rank sends no message to itself");
    SP_CHECK_LE(0, call.tag);
    SP_CHECK_LT(call.tag, 1 << 20);
  }
}

void validate_buffers(const Call& call, int rank) {
  const std::size_t width = size_of(call.dtype);
  const std::size_t send_bytes = call.send_elements(rank) * width;
  const std::size_t recv_bytes = call.recv_elements(rank) * width;
  SP_CHECK(send_bytes == 0 || call.send != nullptr, "no send buffer");
  SP_CHECK(recv_bytes == 0 || call.recv != nullptr, "no receive buffer");
  SP_CHECK(in_place(call, rank) || call.kind == CallKind::broadcast ||
               !overlap(call.send, send_bytes, call.recv, recv_bytes),
           "the buffers overlap and are not in place");
}

Call make_call(CallKind kind, const void* send, void* recv, std::size_t count, Dtype dtype) {
  Call call;
  call.kind = kind;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.dtype = dtype;
  return call;
}

void run_now(Communicator& comm, const Call& call) {
  comm.run(call, default_deadline(comm));
}

std::vector<std::size_t> equal_counts(const Communicator& comm, std::size_t count) {
  return std::vector<std::size_t>(static_cast<std::size_t>(comm.size()), count);
}

}  // namespace

std::string_view name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::bit_or:
      return "bit_or";
  }
  SP_CHECK(false, "no such reduce op");
}

std::string_view name(CallKind kind) {
  switch (kind) {
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::reduce:
      return "reduce";
    case CallKind::all_reduce:
      return "all_reduce";
    case CallKind::reduce_scatter:
      return "reduce_scatter";
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::all_to_all:
      return "all_to_all";
    case CallKind::send:
      return "send";
    case CallKind::recv:
      return "recv";
    case CallKind::barrier:
      return "barrier";
  }
  SP_CHECK(false, "no such call kind");
}

std::string child_name(const std::string& parent, const std::string& label, int repeat, int color) {
  std::string text = parent + "/" + label;
  if (repeat > 0) text += "~" + std::to_string(repeat);
  if (color >= 0) text += "." + std::to_string(color);
  return text;
}

std::size_t Call::send_elements(int rank) const {
  switch (kind) {
    case CallKind::broadcast:
      return rank == peer ? count : 0;
    case CallKind::reduce:
    case CallKind::all_reduce:
    case CallKind::send:
      return count;
    case CallKind::reduce_scatter:
      return sum(recv_counts);
    case CallKind::all_gather:
      return recv_counts[static_cast<std::size_t>(rank)];
    case CallKind::all_to_all:
      return sum(send_counts);
    case CallKind::recv:
    case CallKind::barrier:
      return 0;
  }
  SP_CHECK(false, "no such call kind");
}

std::size_t Call::recv_elements(int rank) const {
  switch (kind) {
    case CallKind::broadcast:
    case CallKind::all_reduce:
    case CallKind::recv:
      return count;
    case CallKind::reduce:
      return rank == peer ? count : 0;
    case CallKind::reduce_scatter:
      return recv_counts[static_cast<std::size_t>(rank)];
    case CallKind::all_gather:
    case CallKind::all_to_all:
      return sum(recv_counts);
    case CallKind::send:
    case CallKind::barrier:
      return 0;
  }
  SP_CHECK(false, "no such call kind");
}

void validate(const Call& call, int rank, int size) {
  validate_counts(call, static_cast<std::size_t>(size));
  validate_peer(call, rank, size);
  const bool reduces = call.kind == CallKind::reduce || call.kind == CallKind::all_reduce ||
                       call.kind == CallKind::reduce_scatter;
  SP_CHECK(!reduces || call.op != ReduceOp::bit_or || !is_float(call.dtype),
           "bit_or is for integers");
  if (call.kind == CallKind::broadcast) {
    SP_CHECK(call.count == 0 || call.recv != nullptr, "no broadcast buffer");
    return;
  }
  validate_buffers(call, rank);
}

void barrier(Communicator& comm) {
  run_now(comm, Call{});
}

void broadcast(Communicator& comm, void* data, std::size_t count, Dtype dtype, int root) {
  Call call = make_call(CallKind::broadcast, nullptr, data, count, dtype);
  call.peer = root;
  run_now(comm, call);
}

void reduce(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype,
            ReduceOp op, int root) {
  Call call = make_call(CallKind::reduce, send, recv, count, dtype);
  call.op = op;
  call.peer = root;
  run_now(comm, call);
}

void all_reduce(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype,
                ReduceOp op) {
  Call call = make_call(CallKind::all_reduce, send, recv, count, dtype);
  call.op = op;
  run_now(comm, call);
}

void reduce_scatter(Communicator& comm, const void* send, void* recv, std::size_t count,
                    Dtype dtype, ReduceOp op) {
  reduce_scatter_v(comm, send, recv, equal_counts(comm, count), dtype, op);
}

void reduce_scatter_v(Communicator& comm, const void* send, void* recv,
                      const std::vector<std::size_t>& counts, Dtype dtype, ReduceOp op) {
  Call call = make_call(CallKind::reduce_scatter, send, recv, 0, dtype);
  call.op = op;
  call.recv_counts = counts;
  run_now(comm, call);
}

void all_gather(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype) {
  all_gather_v(comm, send, recv, equal_counts(comm, count), dtype);
}

void all_gather_v(Communicator& comm, const void* send, void* recv,
                  const std::vector<std::size_t>& counts, Dtype dtype) {
  Call call = make_call(CallKind::all_gather, send, recv, 0, dtype);
  call.recv_counts = counts;
  run_now(comm, call);
}

void all_to_all(Communicator& comm, const void* send, void* recv, std::size_t count, Dtype dtype) {
  const std::vector<std::size_t> counts = equal_counts(comm, count);
  all_to_all_v(comm, send, recv, counts, counts, dtype);
}

void all_to_all_v(Communicator& comm, const void* send, void* recv,
                  const std::vector<std::size_t>& send_counts,
                  const std::vector<std::size_t>& recv_counts, Dtype dtype) {
  Call call = make_call(CallKind::all_to_all, send, recv, 0, dtype);
  call.send_counts = send_counts;
  call.recv_counts = recv_counts;
  run_now(comm, call);
}

void send(Communicator& comm, const void* data, std::size_t count, Dtype dtype, int peer, int tag) {
  Call call = make_call(CallKind::send, data, nullptr, count, dtype);
  call.peer = peer;
  call.tag = tag;
  run_now(comm, call);
}

void recv(Communicator& comm, void* data, std::size_t count, Dtype dtype, int peer, int tag) {
  Call call = make_call(CallKind::recv, nullptr, data, count, dtype);
  call.peer = peer;
  call.tag = tag;
  run_now(comm, call);
}

std::vector<std::string> all_gather_text(Communicator& comm, const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::int64_t> lengths(ranks);
  const auto length = static_cast<std::int64_t>(mine.size());
  all_gather(comm, &length, lengths.data(), 1, Dtype::i64);

  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string all(sum(counts), '\0');
  all_gather_v(comm, mine.data(), all.data(), counts, Dtype::u8);

  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.push_back(all.substr(sum(counts, r), counts[r]));
  return texts;
}

}  // namespace shardproof
