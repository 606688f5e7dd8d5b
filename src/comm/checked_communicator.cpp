// checked_communicator: what a call moves has a checksum that moves beside it.
#include "comm/checked_communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "comm/local_reduce.h"

namespace shardproof {
namespace {

constexpr std::size_t gathered_bytes = std::size_t{16} << 10;  // of a rank, for a reduction

bool is_integer(Dtype dtype) {
  return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8;
}
bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::recv;
}
bool reduces(CallKind kind) {
  return kind == CallKind::reduce || kind == CallKind::all_reduce ||
         kind == CallKind::reduce_scatter;
}

Call plain_call(CallKind kind, const void* send, void* recv, std::size_t count, Dtype dtype) {
  Call call;
  call.kind = kind;
  call.dtype = dtype;
  call.send = send;
  call.recv = recv;
  call.count = count;
  return call;
}

}  // namespace

// Of one call: what travels beside it, and the comparison once both have arrived.
class CheckedCommunicator::Check {
 public:
  Check(const Communicator& comm, const Call& call, std::uint64_t number)
      : call_(call),
        rank_(static_cast<std::size_t>(comm.rank())),
        size_(static_cast<std::size_t>(comm.size())),
        width_(size_of(call.dtype)),
        group_(comm.group()),
        place_(fmt::format("{} {} of group {}", name(call.kind), number, group_.name)) {
    if (is_message(call.kind)) place_ += fmt::format(" with tag {}", call.tag);
    if (!reduces(call.kind)) {
      beside_move();
    } else if (call.op == ReduceOp::sum) {
      beside_sum();
    } else {
      beside_other_reduction();
    }
  }

  const std::optional<Call>& beside() const { return beside_; }  // none: nothing to compare
  void keep(Keep keep) { keep_ = std::move(keep); }

  void verify() {
    if (verified_) return;
    compare();
    verified_ = true;
  }

 private:
  void compare() const {
    if (!again_.empty()) return verify_again();
    if (reduces(call_.kind)) return verify_sum();
    switch (call_.kind) {
      case CallKind::broadcast:
      case CallKind::recv:
        return verify_part(static_cast<std::size_t>(call_.peer), call_.recv, call_.count,
                           theirs_[0]);
      case CallKind::all_gather:
      case CallKind::all_to_all:
        return verify_parts();
      default:
        return;
    }
  }

  std::uint64_t of(const void* data, std::size_t count) const {
    return checksum(data, count * width_);
  }
  static const void* at(const void* data, std::size_t bytes) {
    return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + bytes;
  }

  void beside_move() {
    switch (call_.kind) {
      case CallKind::broadcast:
        theirs_ = {rank_ == static_cast<std::size_t>(call_.peer) ? of(call_.recv, call_.count) : 0};
        beside_ = plain_call(CallKind::broadcast, nullptr, theirs_.data(), 1, Dtype::i64);
        beside_->peer = call_.peer;
        return;
      case CallKind::send:
      case CallKind::recv:
        theirs_ = {call_.kind == CallKind::send ? of(call_.send, call_.count) : 0};
        beside_ = call_.kind == CallKind::send
                      ? plain_call(call_.kind, theirs_.data(), nullptr, 1, Dtype::i64)
                      : plain_call(call_.kind, nullptr, theirs_.data(), 1, Dtype::i64);
        beside_->peer = call_.peer;
        beside_->tag = call_.tag;
        return;
      case CallKind::all_gather:
        mine_ = {of(call_.send, call_.recv_counts[rank_])};
        return gather_sums();
      case CallKind::all_to_all: {
        std::size_t begin = 0;
        for (const std::size_t count : call_.send_counts) {
          mine_.push_back(of(at(call_.send, begin * width_), count));
          begin += count;
        }
        return exchange_sums();
      }
      default:
        return;
    }
  }

  void beside_sum() {
    if (!is_integer(call_.dtype)) return;
    if (call_.kind != CallKind::reduce_scatter) {
      mine_ = {linear_checksum(call_.send, call_.count, width_)};
      return gather_sums();
    }
    std::size_t begin = 0;
    for (const std::size_t count : call_.recv_counts) {
      mine_.push_back(linear_checksum(at(call_.send, begin * width_), count, width_));
      begin += count;
    }
    exchange_sums();
  }

  void beside_other_reduction() {
    const std::size_t bytes = call_.count * width_;
    if (!is_integer(call_.dtype) || call_.kind == CallKind::reduce_scatter || bytes == 0 ||
        bytes > gathered_bytes) {
      return;
    }
    own_.resize(bytes);
    std::memcpy(own_.data(), call_.send, bytes);
    again_.resize(bytes * size_);
    beside_ = plain_call(CallKind::all_gather, own_.data(), again_.data(), 0, call_.dtype);
    beside_->recv_counts.assign(size_, call_.count);
  }

  void gather_sums() {
    theirs_.resize(size_);
    beside_ = plain_call(CallKind::all_gather, mine_.data(), theirs_.data(), 0, Dtype::i64);
    beside_->recv_counts.assign(size_, 1);
  }
  void exchange_sums() {
    theirs_.resize(size_);
    beside_ = plain_call(CallKind::all_to_all, mine_.data(), theirs_.data(), 0, Dtype::i64);
    beside_->send_counts.assign(size_, 1);
    beside_->recv_counts.assign(size_, 1);
  }

  void verify_parts() const {
    std::size_t begin = 0;
    for (std::size_t r = 0; r < size_; ++r) {
      const std::size_t count = call_.recv_counts[r];
      const bool left_out = call_.kind == CallKind::all_to_all && r == rank_ && count == 0;
      if (!left_out) verify_part(r, at(call_.recv, begin * width_), count, theirs_[r]);
      begin += count;
    }
  }

  void verify_part(std::size_t from, const void* data, std::size_t count,
                   std::uint64_t sent) const {
    const std::uint64_t found = of(data, count);
    if (found == sent) return;
    const int sender = group_.world_ranks[from], receiver = group_.world_ranks[rank_];
    throw Error(ErrorKind::corrupt, place_,
                fmt::format("what rank {} sent to rank {} did not arrive as it was: {} bytes with "
                            "checksum {:016x}; expected {:016x}",
                            sender, receiver, count * width_, found, sent),
                sender);
  }

  void verify_sum() const {
    if (call_.kind == CallKind::reduce && rank_ != static_cast<std::size_t>(call_.peer)) return;
    const std::size_t count =
        call_.kind == CallKind::reduce_scatter ? call_.recv_counts[rank_] : call_.count;
    std::uint64_t sum = std::accumulate(theirs_.begin(), theirs_.end(), std::uint64_t{0});
    constexpr std::size_t bits_of_a_byte = 8;
    if (width_ < sizeof sum) sum &= (std::uint64_t{1} << (width_ * bits_of_a_byte)) - 1;
    if (linear_checksum(call_.recv, count, width_) != sum) wrong_reduction();
  }

  void verify_again() const {
    if (call_.kind == CallKind::reduce && rank_ != static_cast<std::size_t>(call_.peer)) return;
    std::vector<const void*> inputs;
    for (std::size_t r = 0; r < size_; ++r) inputs.push_back(again_.data() + r * own_.size());
    std::vector<std::byte> right(own_.size());
    local_reduce(inputs, right.data(), call_.count, call_.dtype, call_.op);
    if (std::memcmp(right.data(), call_.recv, right.size()) != 0) wrong_reduction();
  }

  [[noreturn]] void wrong_reduction() const {
    throw Error(ErrorKind::corrupt, place_,
                fmt::format("what rank {} received is not the {} of what the ranks of the group "
                            "brought",
                            group_.world_ranks[rank_], name(call_.op)),
                group_.world_ranks[rank_]);
  }

  const Call call_;
  const std::size_t rank_, size_, width_;
  const Group group_;
  std::string place_;
  std::optional<Call> beside_;
  std::vector<std::uint64_t> mine_, theirs_;
  std::vector<std::byte> own_, again_;  // of a reduction that is done again
  Keep keep_;
  bool verified_ = false;
};

namespace {

template <typename Check>
class CheckedWork : public Work {
 public:
  CheckedWork(std::unique_ptr<Work> data, std::unique_ptr<Work> sums, std::shared_ptr<Check> check)
      : check_(std::move(check)), data_(std::move(data)), sums_(std::move(sums)) {}
  void wait(Deadline deadline) override {
    data_->wait(deadline);
    sums_->wait(deadline);
    check_->verify();
  }
  bool done() const override { return data_->done() && sums_->done(); }

 private:
  const std::shared_ptr<Check> check_;  // first: the works use its buffers
  const std::unique_ptr<Work> data_, sums_;
};

}  // namespace

CheckedCommunicator::CheckedCommunicator(std::unique_ptr<Communicator> inner,
                                         std::unique_ptr<Communicator> sums)
    : ForwardingCommunicator(std::move(inner)), sums_(std::move(sums)) {}

std::shared_ptr<CheckedCommunicator::Check> CheckedCommunicator::check_of(const Call& call) {
  const bool message = is_message(call.kind);
  const auto key =
      message ? std::tuple(call.kind, call.peer, call.tag) : std::tuple(CallKind::barrier, 0, 0);
  const std::uint64_t number = next_[key]++;
  validate(call, rank(), size());
  auto check = std::make_shared<Check>(*this, call, number);
  return check->beside() ? check : nullptr;
}

void CheckedCommunicator::run(const Call& call, Deadline deadline) {
  const auto check = check_of(call);
  inner().run(call, deadline);
  if (check == nullptr) return;
  sums_->run(*check->beside(), deadline);
  check->verify();
}

std::unique_ptr<Work> CheckedCommunicator::start(const Call& call, Keep keep) {
  const auto check = check_of(call);
  if (check == nullptr) return inner().start(call, std::move(keep));
  check->keep(keep);
  auto data = inner().start(call, std::move(keep));
  auto sums = sums_->start(*check->beside(), check);
  return std::make_unique<CheckedWork<Check>>(std::move(data), std::move(sums), check);
}

void CheckedCommunicator::revoke() {
  inner().revoke();
  sums_->revoke();
}

void CheckedCommunicator::abort() {
  inner().abort();
  sums_->abort();
}

std::unique_ptr<Communicator> CheckedCommunicator::rewrap(std::unique_ptr<Communicator> child) {
  return make_checked(std::move(child));
}

std::unique_ptr<Communicator> make_checked(std::unique_ptr<Communicator> inner) {
  auto sums = inner->split(0, inner->rank(), "checksums", default_deadline(*inner));
  return std::make_unique<CheckedCommunicator>(std::move(inner), std::move(sums));
}

}  // namespace shardproof
