// ctest: unit
// The seams are enough: ranks on threads that own tensor pieces, sequence pieces or both, and
// exchange values at the seams alone, produce the lone rank's bits in every loss and every leaf
// gradient; with sequence parallelism and with uneven shares as well. The exchange here is the
// plainest there is (everybody gets every leaf); real plans are tested with their communicators.
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <ATen/ops/maximum.h>

#include "model/gpt.h"
#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::uint64_t seed = 11;

// All values of a group under one key, by member.
class Group {
 public:
  explicit Group(std::size_t size) : size_(size) {}

  template <typename T>
  std::vector<T> exchange(std::size_t me, const std::string& key, const T& value) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[key];
    box.resize(size_);
    if (box[me].has_value()) throw std::logic_error("passed twice: " + key);
    box[me] = value;
    changed_.notify_all();
    const bool complete = changed_.wait_for(lock, std::chrono::seconds(20), [&] {
      return std::all_of(box.begin(), box.end(), [](const auto& v) { return v.has_value(); });
    });
    if (!complete) throw std::runtime_error("nobody else came to " + key);
    std::vector<T> values;
    for (const auto& v : box) values.push_back(std::any_cast<T>(v));
    return values;
  }

 private:
  const std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<std::any>> boxes_;
};

std::string key_of(const Site& site, int tensor_piece = -1) {
  return std::string(site.what) + "/" + std::to_string(site.layer) + "/" +
         std::to_string(site.micro_batch) + "/" + std::to_string(static_cast<int>(site.pass)) +
         "/" + std::to_string(tensor_piece);
}

// One rank of a tensor group (all have the same sequence pieces) and a context group (all have the
// same tensor pieces).
struct Seat {
  Group* tensor;
  std::size_t tensor_rank;
  std::vector<std::vector<int>> tensor_pieces;  // of every tensor rank
  std::vector<std::vector<int>> residual;       // of every tensor rank
  Group* context;
  std::size_t context_rank;
  std::vector<std::vector<int>> sequence_pieces;  // of every context rank
};

class ExchangingSeams : public LoneSeams {
 public:
  ExchangingSeams(const GptShape& shape, std::vector<at::Tensor> parameters, Sink sink, Seat seat)
      : LoneSeams(shape, std::move(parameters), std::move(sink), seed),
        shape_(shape),
        seat_(std::move(seat)) {
    owned_ = {seat_.tensor_pieces[seat_.tensor_rank], seat_.sequence_pieces[seat_.context_rank],
              seat_.residual[seat_.tensor_rank], 0, shape.layers};
  }

  const OwnedPieces& owned() const override { return owned_; }

  std::vector<at::Tensor> loss_sum(Parts parts, const Site& site) override {
    std::vector<at::Tensor> sums;
    for (const auto& leaves : all_leaves(parts, site)) sums.push_back(canonical_sum(leaves));
    return sums;
  }

  std::vector<at::Tensor> loss_max(Parts parts, const Site& site) override {
    std::vector<at::Tensor> maxima;
    for (const auto& leaves : all_leaves(parts, site)) {
      at::Tensor most = leaves[0];
      for (const at::Tensor& leaf : leaves) most = at::maximum(most, leaf);
      maxima.push_back(most);
    }
    return maxima;
  }

  std::vector<at::Tensor> tensor_sum(Parts parts, const Site& site) override {
    const auto sums = loss_sum(std::move(parts), site);
    std::vector<at::Tensor> mine;
    for (std::size_t n = 0; n < sums.size(); ++n) {
      if (std::ranges::count(owned_.residual, owned_.sequence[n]) == 1) mine.push_back(sums[n]);
    }
    return mine;
  }

  std::vector<at::Tensor> sequence_gather(std::vector<at::Tensor> residual,
                                          const Site& site) override {
    const auto lists =
        seat_.tensor->exchange(seat_.tensor_rank, "gather " + key_of(site), residual);
    std::map<int, at::Tensor> by_piece;
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      for (std::size_t n = 0; n < lists[rank].size(); ++n) {
        by_piece[seat_.residual[rank][n]] = lists[rank][n];
      }
    }
    std::vector<at::Tensor> whole;
    for (const int s : owned_.sequence) whole.push_back(by_piece.at(s));
    return whole;
  }

  std::vector<KeyValue> exchange_keys(std::span<const KeyValue> mine, int tensor_piece,
                                      const Site& site) override {
    const std::vector<KeyValue> list(mine.begin(), mine.end());
    const auto lists =
        seat_.context->exchange(seat_.context_rank, key_of(site, tensor_piece), list);
    std::vector<KeyValue> all(static_cast<std::size_t>(shape_.sequence_pieces));
    for (std::size_t rank = 0; rank < lists.size(); ++rank) {
      for (std::size_t n = 0; n < lists[rank].size(); ++n) {
        all[static_cast<std::size_t>(seat_.sequence_pieces[rank][n])] = lists[rank][n];
      }
    }
    return all;
  }

  std::vector<KeyValue> return_key_gradients(std::span<const std::vector<KeyValue>> partial,
                                             int tensor_piece, const Site& site) override {
    const std::vector<std::vector<KeyValue>> list(partial.begin(), partial.end());
    const auto lists =
        seat_.context->exchange(seat_.context_rank, key_of(site, tensor_piece), list);
    std::vector<KeyValue> sums;
    for (const int j : owned_.sequence) {
      std::vector<at::Tensor> keys(static_cast<std::size_t>(shape_.sequence_pieces));
      std::vector<at::Tensor> values(keys.size());
      for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        for (std::size_t n = 0; n < lists[rank].size(); ++n) {
          const KeyValue& term = lists[rank][n][static_cast<std::size_t>(j)];
          if (!term.key.defined()) continue;
          const auto i = static_cast<std::size_t>(seat_.sequence_pieces[rank][n]);
          keys[i] = term.key.clone();  // others read the same tensor
          values[i] = term.value.clone();
        }
      }
      sums.push_back({canonical_sum(keys), canonical_sum(values)});
    }
    return sums;
  }

 private:
  // Copies of all V leaves of each owned sequence piece.
  Parts all_leaves(const Parts& parts, const Site& site) {
    const auto lists = seat_.tensor->exchange(seat_.tensor_rank, key_of(site), parts);
    Parts leaves(parts.size());
    for (std::size_t s = 0; s < parts.size(); ++s) {
      leaves[s].resize(static_cast<std::size_t>(shape_.tensor_pieces));
      for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        for (std::size_t n = 0; n < lists[rank][s].size(); ++n) {
          const auto v = static_cast<std::size_t>(seat_.tensor_pieces[rank][n]);
          leaves[s][v] = lists[rank][s][n].clone();
        }
      }
    }
    return leaves;
  }

  const GptShape shape_;
  const Seat seat_;
  OwnedPieces owned_;
};

struct TestLayout {
  const char* name;
  std::vector<std::vector<int>> tensor;
  std::vector<std::vector<int>> sequence;
  bool sequence_parallel = false;
};

struct RankResult {
  std::string failure;
  std::map<int, double> losses;  // by sequence piece
  Leaves leaves;
};

// The residual pieces of each tensor rank: all of them, or every n-th.
std::vector<std::vector<int>> residual_of(const std::vector<int>& sequence, std::size_t ranks,
                                          bool split) {
  std::vector<std::vector<int>> residual(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t n = 0; n < sequence.size(); ++n) {
      if (!split || n % ranks == rank) residual[rank].push_back(sequence[n]);
    }
  }
  return residual;
}

std::vector<RankResult> run_ranks(const GptShape& shape, const PieceTable& table,
                                  const std::vector<at::Tensor>& parameters,
                                  const MicroBatch& batch, const TestLayout& layout) {
  const std::size_t tp = layout.tensor.size();
  const std::size_t cp = layout.sequence.size();
  std::vector<std::unique_ptr<Group>> tensor_groups, context_groups;
  for (std::size_t c = 0; c < cp; ++c) tensor_groups.push_back(std::make_unique<Group>(tp));
  for (std::size_t t = 0; t < tp; ++t) context_groups.push_back(std::make_unique<Group>(cp));
  std::vector<RankResult> results(tp * cp);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < tp * cp; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      const std::size_t t = rank % tp, c = rank / tp;
      RankResult& result = results[rank];
      try {
        Seat seat{
            tensor_groups[c].get(),  t,
            layout.tensor,           residual_of(layout.sequence[c], tp, layout.sequence_parallel),
            context_groups[t].get(), c,
            layout.sequence};
        ExchangingSeams seams(shape, parameters, keep_leaves(result.leaves), seat);
        Gpt gpt(shape, table, seams);
        for (const LossLeaf& loss : gpt.forward(batch)) {
          result.losses[loss.sequence_piece] = loss.sum;
        }
        gpt.backward(batch.index, 1.0 / static_cast<double>(batch.valid_tokens()));
      } catch (const std::exception& error) {
        result.failure = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

void expect_lone_bits(const GptShape& shape, const MicroBatch& batch) {
  const PieceTable table(gpt_pieces(shape));
  const auto parameters = initial_parameters(shape, table, seed);
  Leaves expected;
  LoneSeams seams(shape, parameters, keep_leaves(expected), seed);
  Gpt gpt(shape, table, seams);
  const auto losses = gpt.forward(batch);
  gpt.backward(0, 1.0 / static_cast<double>(batch.valid_tokens()));

  const std::vector<int> all = {0, 1, 2, 3};
  const TestLayout layouts[] = {{"tp2", {{0, 1}, {2, 3}}, {all}},
                                {"tp3", {{0}, {1, 2}, {3}}, {all}},
                                {"tp4", {{0}, {1}, {2}, {3}}, {all}},
                                {"tp2.sp", {{0, 1}, {2, 3}}, {all}, true},
                                {"tp4.sp", {{0}, {1}, {2}, {3}}, {all}, true},
                                {"cp2", {all}, {{0, 1}, {2, 3}}},
                                {"cp2-zigzag", {all}, {{0, 3}, {1, 2}}},
                                {"cp4", {all}, {{0}, {1}, {2}, {3}}},
                                {"tp2.sp.cp2", {{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}, true}};
  for (const TestLayout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    Leaves seen;
    for (const RankResult& rank : run_ranks(shape, table, parameters, batch, layout)) {
      ASSERT_EQ(rank.failure, "");
      EXPECT_FALSE(rank.losses.empty());
      for (const auto& [s, sum] : rank.losses) {
        EXPECT_EQ(sum, losses[static_cast<std::size_t>(s)].sum) << "sequence piece " << s;
      }
      for (const auto& [key, leaf] : rank.leaves) {
        ASSERT_TRUE(same_bits(leaf, expected.at(key)))
            << table.pieces()[static_cast<std::size_t>(std::get<0>(key))].name << " sequence "
            << std::get<2>(key);
        seen.emplace(key, leaf);
      }
    }
    EXPECT_EQ(seen.size(), expected.size());
  }
}

TEST(GptLayout, EveryOwnershipGivesTheLoneRanksBits) {
  GptShape shape{.vocabulary = 61, .tensor_pieces = 4, .sequence_pieces = 4};
  MicroBatch batch = random_batch(shape, 0, 2, seed, 4);
  expect_lone_bits(shape, batch);
  shape.dropout = 0.1;
  shape.packed = true;
  for (int i = 0; i < 32; ++i) batch.documents.push_back(i / 6);
  expect_lone_bits(shape, batch);
}

}  // namespace
}  // namespace shardproof
