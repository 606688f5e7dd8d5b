// doctor_ranks: a known product and known sums on every rank.
#include "harness/doctor_ranks.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "comm/thread_communicator.h"

namespace shardproof {
namespace {

constexpr std::int64_t m = 48, k = 64, n = 32;
// SHA-256 of the product as little-endian floats; every sum on the way is a whole number below
// 2^24.
constexpr const char* known_digest =
    "1ac695105d5350275044235ba946b07d86607ec48c54235d463d8d513cbf1a7f";

at::Tensor whole_numbers(std::int64_t rows, std::int64_t columns, std::int64_t by_row,
                         std::int64_t by_column, std::int64_t modulus, std::int64_t shift) {
  const at::Tensor out = at::empty({rows, columns});
  auto* data = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t value = (i / columns * by_row + i % columns * by_column) % modulus - shift;
    data[i] = static_cast<float>(value);
  }
  return out;
}

std::string try_product(int rank, const RankSpoiler& spoiler) {
  const at::Tensor product =
      at::mm(whole_numbers(m, k, 7, 3, 11, 5), whole_numbers(k, n, 5, 2, 13, 6)).contiguous();
  const std::span<float> values(product.mutable_data_ptr<float>(),
                                static_cast<std::size_t>(product.numel()));
  if (spoiler.product) spoiler.product(rank, values);
  Sha256 hash;
  hash.update(values.data(), values.size_bytes());
  const std::string digest = hash.finish().hex();
  if (digest == known_digest) return "";
  return fmt::format("its product has digest {}; expected {}", digest, known_digest);
}

std::string try_sums(Communicator& comm, const RankSpoiler& spoiler) {
  constexpr std::int64_t count = 1000, of_rank = 1'000'000;
  std::vector<std::int64_t> values(count);
  std::iota(values.begin(), values.end(), of_rank * comm.rank());
  all_reduce(comm, values.data(), values.data(), values.size(), Dtype::i64, ReduceOp::sum);
  if (spoiler.sums) spoiler.sums(comm.rank(), values);
  const std::int64_t ranks = comm.size();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t right = of_rank * ranks * (ranks - 1) / 2 + ranks * i;
    const std::int64_t found = values[static_cast<std::size_t>(i)];
    if (found == right) continue;
    return fmt::format("its sum {} over all ranks is {}; expected {}", i, found, right);
  }
  return "";
}

}  // namespace

Finding ranks_finding(int ranks, const RankSpoiler& spoiler) {
  ThreadWorld world(ranks, std::chrono::seconds(20));
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& mine = wrong[static_cast<std::size_t>(rank)];
      try {
        at::set_num_threads(1);
        mine = try_product(rank, spoiler);
        const auto comm = world.communicator(rank);
        const std::string sums = try_sums(*comm, spoiler);
        if (mine.empty()) mine = sums;
      } catch (const std::exception& error) {
        mine = error.what();
        world.revoke_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Finding out{fmt::format("self-test of {} ranks", ranks), true, ""};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string& text = wrong[static_cast<std::size_t>(rank)];
    if (text.empty()) continue;
    out.ok = false;
    out.detail += fmt::format("{}rank {}: {}", out.detail.empty() ? "" : "; ", rank, text);
  }
  if (out.ok) out.detail = "each has the known product, and the known sums over all of them";
  return out;
}

}  // namespace shardproof
