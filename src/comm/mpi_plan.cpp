// mpi_plan: the algorithms. Reductions scatter by pairwise exchange and add in rank order; the
// all-reduce gathers the shares again; broadcast and reduce follow a binomial tree, except that
// 16-bit floats are reduced straight at the root, because a partial sum would be rounded on its
// way.
#include "comm/mpi_plan.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace shardproof {

namespace {

// A contiguous piece of a buffer, cut into chunks.
struct Span {
  std::byte* data = nullptr;
  std::size_t bytes = 0;

  std::size_t chunks(std::size_t chunk) const { return (bytes + chunk - 1) / chunk; }
  Span at(std::size_t index, std::size_t chunk) const {
    const std::size_t begin = std::min(bytes, index * chunk);
    return {data + begin, std::min(chunk, bytes - begin)};
  }
};

class Planner {
 public:
  Planner(const Call& call, int rank, int size, std::size_t chunk)
      : call_(call), rank_(rank), size_(size), chunk_(chunk), width_(size_of(call.dtype)) {}

  CallPlan make() {
    switch (call_.kind) {
      case CallKind::broadcast:
        broadcast();
        break;
      case CallKind::reduce:
        reduce();
        break;
      case CallKind::all_reduce:
        all_reduce();
        break;
      case CallKind::reduce_scatter:
        reduce_scatter(cut(input(), call_.recv_counts), output());
        break;
      case CallKind::all_gather:
        all_gather();
        break;
      case CallKind::all_to_all:
        all_to_all();
        break;
      case CallKind::send:
        message_to(call_.peer, {input(), call_.count * width_});
        break;
      case CallKind::recv:
        message_from(call_.peer, {output(), call_.count * width_});
        break;
      case CallKind::barrier:
        barrier();
        break;
    }
    return std::move(plan_);
  }

 private:
  // `send` is only ever read; one pointer type keeps Span simple.
  std::byte* input() const {
    return static_cast<std::byte*>(const_cast<void*>(call_.send));  // NOLINT
  }
  std::byte* output() const { return static_cast<std::byte*>(call_.recv); }
  int after(int distance) const { return (rank_ + distance) % size_; }
  int before(int distance) const { return (rank_ - distance + size_) % size_; }

  std::vector<Span> cut(std::byte* data, const std::vector<std::size_t>& counts) const {
    std::vector<Span> shares;
    for (const std::size_t count : counts) {
      shares.push_back({data, count * width_});
      data += count * width_;
    }
    return shares;
  }

  // ---- steps ----
  void send(int peer, Span span) {
    if (span.bytes > 0)
      post({.kind = PlanStep::Kind::send, .peer = peer, .from = span.data, .size = span.bytes});
  }
  void recv(int peer, Span span) {
    if (span.bytes > 0)
      post({.kind = PlanStep::Kind::recv, .peer = peer, .to = span.data, .size = span.bytes});
  }
  void post(const PlanStep& step) {
    plan_.steps.push_back(step);
    ++plan_.messages;
  }
  void wait(std::size_t messages) {
    if (messages > 0) plan_.steps.push_back({.kind = PlanStep::Kind::wait, .size = messages});
  }
  void copy(Span from, std::byte* to) {
    if (from.bytes == 0 || from.data == to) return;
    plan_.steps.push_back(
        {.kind = PlanStep::Kind::copy, .from = from.data, .to = to, .size = from.bytes});
  }
  void add(std::span<const void* const> inputs, Span to) {
    if (to.bytes == 0) return;
    plan_.steps.push_back({.kind = PlanStep::Kind::reduce,
                           .to = to.data,
                           .size = to.bytes / width_,
                           .first_input = plan_.inputs.size(),
                           .inputs = inputs.size()});
    plan_.inputs.insert(plan_.inputs.end(), inputs.begin(), inputs.end());
  }

  // Posts chunk c + 1 before chunk c is waited for and consumed.
  template <typename Post, typename Consume>
  void pipeline(std::size_t chunks, const Post& post, const Consume& consume) {
    std::size_t posted = 0;
    for (std::size_t c = 0; c <= chunks; ++c) {
      const std::size_t before = posted;
      if (c < chunks) post(c);
      posted = plan_.messages;
      if (c == 0) continue;
      wait(before);
      consume(c - 1);
    }
  }

  // Scratch for two chunks of each of `peers`; slot(c, i) is where chunk c of the i-th arrives.
  void reserve(std::size_t peers, std::size_t largest) {
    slot_bytes_ = std::min(chunk_, largest);
    slots_ = peers;
    if (peers * slot_bytes_ > 0) {
      plan_.scratch = std::make_unique_for_overwrite<std::byte[]>(2 * (peers + 1) * slot_bytes_);
    }
  }
  std::byte* slot(std::size_t chunk, std::size_t index) const {
    return plan_.scratch.get() + ((chunk % 2) * (slots_ + 1) + index) * slot_bytes_;
  }

  // ---- algorithms ----
  void reduce_scatter(const std::vector<Span>& shares, std::byte* out) {
    const Span mine = shares[static_cast<std::size_t>(rank_)];
    std::size_t chunks = 0;
    for (const Span& share : shares) chunks = std::max(chunks, share.chunks(chunk_));
    reserve(static_cast<std::size_t>(size_), mine.bytes);
    pipeline(
        chunks,
        [&](std::size_t c) {
          const std::size_t bytes = mine.at(c, chunk_).bytes;
          for (int i = 1; i < size_; ++i) {
            const int from = before(i);
            if (bytes > 0) recv(from, {slot(c, static_cast<std::size_t>(from)), bytes});
            send(after(i), shares[static_cast<std::size_t>(after(i))].at(c, chunk_));
          }
        },
        [&](std::size_t c) {
          const Span own = mine.at(c, chunk_);
          if (own.bytes == 0) return;
          std::vector<const void*> inputs;
          for (int r = 0; r < size_; ++r) {
            inputs.push_back(r == rank_ ? own.data : slot(c, static_cast<std::size_t>(r)));
          }
          add(inputs, {out + (own.data - mine.data), own.bytes});
        });
  }

  // to[r] goes to rank r while from[r] arrives from it.
  void exchange(const std::vector<Span>& to, const std::vector<Span>& from) {
    std::size_t chunks = 0;
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      chunks = std::max({chunks, to[static_cast<std::size_t>(r)].chunks(chunk_),
                         from[static_cast<std::size_t>(r)].chunks(chunk_)});
    }
    pipeline(
        chunks,
        [&](std::size_t c) {
          for (int i = 1; i < size_; ++i) {
            recv(before(i), from[static_cast<std::size_t>(before(i))].at(c, chunk_));
            send(after(i), to[static_cast<std::size_t>(after(i))].at(c, chunk_));
          }
        },
        [](std::size_t) {});
  }

  void gather(const std::vector<Span>& shares) {
    exchange(std::vector<Span>(shares.size(), shares[static_cast<std::size_t>(rank_)]), shares);
  }

  void all_reduce() {
    std::vector<std::size_t> counts;
    const auto ranks = static_cast<std::size_t>(size_);
    for (std::size_t r = 0; r < ranks; ++r) {
      counts.push_back(call_.count * (r + 1) / ranks - call_.count * r / ranks);
    }
    const std::vector<Span> results = cut(output(), counts);
    reduce_scatter(cut(input(), counts), results[static_cast<std::size_t>(rank_)].data);
    gather(results);
  }

  void all_gather() {
    const std::vector<Span> shares = cut(output(), call_.recv_counts);
    const Span mine = shares[static_cast<std::size_t>(rank_)];
    copy({input(), mine.bytes}, mine.data);
    gather(shares);
  }

  void all_to_all() {
    const std::vector<Span> to = cut(input(), call_.send_counts);
    const std::vector<Span> from = cut(output(), call_.recv_counts);
    const auto own = static_cast<std::size_t>(rank_);
    if (from[own].bytes > 0) {
      SP_CHECK_EQ(to[own].bytes, from[own].bytes);
      copy(to[own], from[own].data);
    }
    exchange(to, from);
  }

  // The binomial tree: ranks count from the root; the parent clears the lowest set bit.
  int parent() const {
    const int relative = (rank_ - call_.peer + size_) % size_;
    return ((relative & (relative - 1)) + call_.peer) % size_;
  }
  std::vector<int> children() const {
    const int relative = (rank_ - call_.peer + size_) % size_;
    std::vector<int> ranks;
    for (int bit = 1; relative + bit < size_ && (relative & bit) == 0; bit *= 2) {
      ranks.push_back((relative + bit + call_.peer) % size_);
    }
    return ranks;
  }

  void broadcast() {
    const Span all{output(), call_.count * width_};
    std::vector<int> below = children();
    std::reverse(below.begin(), below.end());  // the deepest subtree first
    const bool root = rank_ == call_.peer;
    pipeline(
        all.chunks(chunk_),
        [&](std::size_t c) {
          if (!root) recv(parent(), all.at(c, chunk_));
        },
        [&](std::size_t c) {
          for (const int child : below) send(child, all.at(c, chunk_));
        });
    wait(plan_.messages);
  }

  void reduce() {
    const bool root = rank_ == call_.peer;
    const bool flat = call_.dtype == Dtype::bf16 || call_.dtype == Dtype::f16;
    std::vector<int> below;
    if (!flat) below = children();
    if (flat && root) {
      for (int i = 1; i < size_; ++i) below.push_back(after(i));
    }
    const int above = flat ? call_.peer : parent();
    const Span own{input(), call_.count * width_};
    reserve(below.size(), own.bytes);
    pipeline(
        own.chunks(chunk_),
        [&](std::size_t c) {
          for (std::size_t i = 0; i < below.size(); ++i) {
            recv(below[i], {slot(c, i), own.at(c, chunk_).bytes});
          }
        },
        [&](std::size_t c) {
          const Span mine = own.at(c, chunk_);
          std::vector<const void*> inputs{mine.data};
          for (std::size_t i = 0; i < below.size(); ++i) inputs.push_back(slot(c, i));
          if (root) return add(inputs, {output() + (mine.data - own.data), mine.bytes});
          if (below.empty()) return send(above, mine);
          const Span partial{slot(c, below.size()), mine.bytes};
          add(inputs, partial);
          send(above, partial);
        });
  }

  void barrier() {
    for (int distance = 1; distance < size_; distance *= 2) {  // dissemination
      post({.kind = PlanStep::Kind::recv, .peer = before(distance)});
      post({.kind = PlanStep::Kind::send, .peer = after(distance)});
      wait(plan_.messages);
    }
  }

  void message_to(int peer, Span span) {
    if (span.bytes == 0) return post({.kind = PlanStep::Kind::send, .peer = peer});
    pipeline(
        span.chunks(chunk_), [&](std::size_t c) { send(peer, span.at(c, chunk_)); },
        [](std::size_t) {});
  }

  void message_from(int peer, Span span) {
    if (span.bytes == 0) return post({.kind = PlanStep::Kind::recv, .peer = peer});
    pipeline(
        span.chunks(chunk_), [&](std::size_t c) { recv(peer, span.at(c, chunk_)); },
        [](std::size_t) {});
  }

  const Call& call_;
  const int rank_;
  const int size_;
  const std::size_t chunk_;
  const std::size_t width_;
  std::size_t slot_bytes_ = 0;
  std::size_t slots_ = 0;
  CallPlan plan_;
};

}  // namespace

CallPlan make_plan(const Call& call, int rank, int size, std::size_t chunk) {
  SP_CHECK(chunk > 0 && chunk % 8 == 0, "a chunk holds whole elements");
  return Planner(call, rank, size, chunk).make();
}

}  // namespace shardproof
