// ulysses: windows of parts, packed for one all-to-all.
#include "parallel/ulysses.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace shardproof {
namespace {

using Window = Ulysses::Window;
using Windows = Ulysses::Windows;

// Of all lists together: `size` elements for each place in a window.
std::vector<std::size_t> element_counts(const Windows& windows, std::int64_t size) {
  std::vector<std::size_t> counts;
  for (const Window& w : windows) {
    counts.push_back(w.count_s * w.count_v * static_cast<std::size_t>(size));
  }
  return counts;
}

// The order in which parts lie in a message: by rank, list, sequence piece, tensor piece.
template <typename Visit>
void each_part(const Windows& windows, std::size_t lists, const Visit& visit) {
  for (const Window& w : windows) {
    for (std::size_t n = 0; n < lists; ++n) {
      for (std::size_t s = w.first_s; s < w.first_s + w.count_s; ++s) {
        for (std::size_t v = w.first_v; v < w.first_v + w.count_v; ++v) visit(n, s, v);
      }
    }
  }
}

at::Tensor flat(const std::vector<std::size_t>& counts) {
  std::size_t sum = 0;
  for (const std::size_t n : counts) sum += n;
  return at::empty({static_cast<std::int64_t>(sum)}, at::kFloat);
}

}  // namespace

Ulysses::Ulysses(Communicator& context, std::vector<std::vector<int>> sequence,
                 std::vector<std::vector<int>> tensor)
    : context_(context) {
  const auto me = static_cast<std::size_t>(context.rank());
  SP_CHECK_EQ(sequence.size(), static_cast<std::size_t>(context.size()));
  SP_CHECK_EQ(tensor.size(), sequence.size());
  std::size_t s = 0, v = 0;
  for (std::size_t r = 0; r < sequence.size(); ++r) {
    SP_CHECK(!sequence[r].empty() && !tensor[r].empty(), "a context rank without pieces");
    by_sequence_.push_back({s, sequence[r].size(), 0, tensor[me].size()});
    by_tensor_.push_back({0, sequence[me].size(), v, tensor[r].size()});
    s += sequence[r].size();
    v += tensor[r].size();
    pieces_.sequence.insert(pieces_.sequence.end(), sequence[r].begin(), sequence[r].end());
  }
  pieces_.tensor = std::move(tensor[me]);
  SP_CHECK(std::ranges::is_sorted(pieces_.sequence), "context ranks own ascending runs");
}

std::vector<Parts> Ulysses::scatter(std::vector<Parts> values) {
  return trade(std::move(values), by_tensor_, by_sequence_);
}

std::vector<Parts> Ulysses::gather(std::vector<Parts> values) {
  return trade(std::move(values), by_sequence_, by_tensor_);
}

std::vector<Parts> Ulysses::trade(std::vector<Parts> values, const Windows& out,
                                  const Windows& in) {
  const at::Tensor like = values.at(0).at(0).at(0);
  const std::int64_t size = like.numel();
  const auto lists = static_cast<std::int64_t>(values.size());
  const auto out_counts = element_counts(out, lists * size);
  const auto in_counts = element_counts(in, lists * size);
  const at::Tensor sent = flat(out_counts), received = flat(in_counts);
  auto* to = sent.mutable_data_ptr<float>();
  each_part(out, values.size(), [&](std::size_t n, std::size_t s, std::size_t v) {
    const at::Tensor& part = values[n].at(s).at(v);
    SP_CHECK(part.is_contiguous() && part.scalar_type() == at::kFloat && part.numel() == size,
             "only contiguous fp32 parts of one shape travel");
    std::memcpy(to, part.const_data_ptr<float>(), part.nbytes());
    to += size;
  });
  all_to_all_v(context_, sent.const_data_ptr(), received.mutable_data_ptr(), out_counts, in_counts,
               Dtype::f32);
  const Window& last = in.back();
  const std::vector<at::Tensor> row(last.first_v + last.count_v);
  values.assign(values.size(), Parts(last.first_s + last.count_s, row));
  std::int64_t at = 0;
  each_part(in, values.size(), [&](std::size_t n, std::size_t s, std::size_t v) {
    values[n][s][v] = received.narrow(0, at, size).view(like.sizes());
    at += size;
  });
  return values;
}

}  // namespace shardproof
