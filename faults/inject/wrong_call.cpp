// wrong_call: one field at a time.
#include "faults/inject/wrong_call.h"

#include <algorithm>

#include "base/check.h"

namespace shardproof {
namespace {

bool has_root(CallKind kind) {
  return kind == CallKind::broadcast || kind == CallKind::reduce;
}

bool reduces(CallKind kind) {
  return kind == CallKind::reduce || kind == CallKind::all_reduce ||
         kind == CallKind::reduce_scatter;
}

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}

// Of the same size, and legal for the call's op.
Dtype other_dtype(const Call& call) {
  const bool bits = reduces(call.kind) && call.op == ReduceOp::bit_or;
  switch (call.dtype) {
    case Dtype::f32:
      return Dtype::i32;
    case Dtype::i32:
      return bits ? Dtype::i32 : Dtype::f32;
    case Dtype::f64:
      return Dtype::i64;
    case Dtype::i64:
      return bits ? Dtype::i64 : Dtype::f64;
    case Dtype::bf16:
      return Dtype::f16;
    case Dtype::f16:
      return Dtype::bf16;
    default:
      return call.dtype;
  }
}

// Takes an element from the last part that has any (but `spared`); its index, or -1.
int take_one(std::vector<std::size_t>& counts, int spared) {
  for (int i = static_cast<int>(counts.size()) - 1; i >= 0; --i) {
    std::size_t& count = counts[static_cast<std::size_t>(i)];
    if (i == spared || count == 0) continue;
    --count;
    return i;
  }
  return -1;
}

bool takes_counts(CallKind kind) {
  return kind == CallKind::reduce_scatter || kind == CallKind::all_gather ||
         kind == CallKind::all_to_all;
}

std::vector<std::size_t>& parts_of(Call& call) {
  return call.kind == CallKind::all_to_all ? call.send_counts : call.recv_counts;
}

std::optional<Call> fewer(Call call, int rank) {
  if (call.kind == CallKind::barrier) return std::nullopt;
  if (!takes_counts(call.kind)) {
    if (call.count == 0) return std::nullopt;
    --call.count;
    return call;
  }
  const int spared = call.kind == CallKind::all_to_all ? rank : -1;
  if (take_one(parts_of(call), spared) < 0) return std::nullopt;
  return call;
}

// The own part of an all_to_all is copied and not sent, and stays as it is.
std::optional<Call> split_otherwise(Call call, int rank, int size) {
  if (!takes_counts(call.kind)) return std::nullopt;
  const bool all_to_all = call.kind == CallKind::all_to_all;
  auto& parts = parts_of(call);
  const int from = take_one(parts, all_to_all ? rank : -1);
  if (from < 0) return std::nullopt;
  for (int to = 0; to < size; ++to) {
    if (to == from || (all_to_all && to == rank)) continue;
    // A gather's own part must not outgrow what is sent.
    if (call.kind == CallKind::all_gather && to == rank) continue;
    if (call.kind == CallKind::reduce_scatter && to == rank) continue;
    ++parts[static_cast<std::size_t>(to)];
    return call;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Call> wrong_call(FaultKind kind, const Call& right, int rank, int size) {
  Call call = right;
  switch (kind) {
    case FaultKind::dtype:
      if (call.kind == CallKind::barrier) return std::nullopt;
      call.dtype = other_dtype(call);
      return call.dtype == right.dtype ? std::nullopt : std::optional(call);
    case FaultKind::count:
      return fewer(call, rank);
    case FaultKind::split:
      return split_otherwise(call, rank, size);
    case FaultKind::op:
      if (!reduces(call.kind)) return std::nullopt;
      call.op = call.op == ReduceOp::max ? ReduceOp::min : ReduceOp::max;
      return call;
    case FaultKind::root:
      if (!has_root(call.kind) || size < 2) return std::nullopt;
      call.peer = (call.peer + 1) % size;
      return call;
    case FaultKind::tag:
      if (!is_message(call.kind)) return std::nullopt;
      call.tag ^= 1;
      return call;
    default:
      return std::nullopt;
  }
}

ScratchCall on_scratch(const Call& call, int rank) {
  ScratchCall out{call, nullptr, nullptr};
  const std::size_t width = size_of(call.dtype);
  // At least one byte each: a buffer has an address. A root needs both.
  const std::size_t elements = std::max(call.send_elements(rank), call.recv_elements(rank));
  const std::size_t bytes = std::max<std::size_t>(elements, call.count) * width + 1;
  out.send = std::make_shared<std::vector<std::byte>>(bytes);
  out.recv = std::make_shared<std::vector<std::byte>>(bytes);
  out.call.send = out.send->data();
  out.call.recv = out.recv->data();
  return out;
}

bool same_contract(const Call& a, const Call& b) {
  return a.kind == b.kind && a.op == b.op && a.dtype == b.dtype && a.count == b.count &&
         a.send_counts == b.send_counts && a.recv_counts == b.recv_counts && a.peer == b.peer &&
         a.tag == b.tag;
}

void flip_bit(void* data, std::size_t bytes, int bit) {
  SP_CHECK_LT(std::size_t{0}, bytes);
  auto* const at = static_cast<unsigned char*>(data);
  const std::size_t word = bytes / 4 / 2 * 4;
  const std::size_t index = std::min(word + static_cast<std::size_t>(bit) / 8, bytes - 1);
  at[index] = static_cast<unsigned char>(at[index] ^ (1U << (bit % 8)));
}

}  // namespace shardproof
