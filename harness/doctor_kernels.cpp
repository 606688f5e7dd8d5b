// doctor_kernels: what doctor measures of LibTorch's kernels.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <map>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "harness/child.h"
#include "harness/doctor.h"
#include "train/program.h"

namespace shardproof {
namespace {

struct ProductShape {
  std::int64_t m, k, n;
};

// Products of a small model, odd ones, and one that is large enough for another kernel.
constexpr ProductShape shapes[] = {{64, 32, 16},  {64, 16, 64},  {32, 64, 32},   {7, 33, 5},
                                   {1, 128, 129}, {63, 31, 127}, {128, 384, 256}};
constexpr std::int64_t line = 16;  // floats of a cache line
constexpr std::int64_t lines = 4;  // places measured, a line apart

// Small products, where kernels that look at addresses were seen.
std::vector<ProductShape> small_shapes() {
  std::vector<ProductShape> out;
  for (const std::int64_t m : {1, 2, 3, 5, 8}) {
    for (const std::int64_t k : {3, 7, 16, 33}) {
      for (const std::int64_t n : {2, 5, 10, 21, 64}) out.push_back({m, k, n});
    }
  }
  return out;
}

// A contiguous [rows, columns] whose first element lies `shift` floats behind an aligned address.
at::Tensor shifted(std::int64_t rows, std::int64_t columns, std::int64_t shift,
                   std::uint32_t stream) {
  const at::Tensor all = at::empty({rows * columns + line * lines});
  const at::Tensor out = all.narrow(0, shift, rows * columns).view({rows, columns});
  const Random random(1, Purpose::test, stream);
  auto* data = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    data[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr<float>(), b.const_data_ptr<float>(), a.nbytes()) == 0;
}

void add(Sha256& hash, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  hash.update(whole.const_data_ptr(), whole.nbytes());
}

std::string digest_in_child(const char* numerics,
                            const std::map<std::string, std::string>& environment = {}) {
  const ChildResult child = run_child({own_executable(), "doctor", "--kernel-digest", numerics},
                                      std::chrono::seconds(60), environment);
  if (child.exit_code != 0) throw Error(ErrorKind::environment, "portable numerics", child.output);
  return child.output.substr(0, child.output.find('\n'));
}

}  // namespace

// a x b, and a x transposed weights, both with their second operand `shift` floats behind a line.
struct Products {
  at::Tensor plain, transposed;
};

Products products_at(const ProductShape& shape, std::int64_t shift) {
  const at::Tensor a = shifted(shape.m, shape.k, 0, 1);
  return {at::mm(a, shifted(shape.k, shape.n, shift, 2)),
          at::mm(a, shifted(shape.n, shape.k, shift, 3).t())};
}

Finding alignment_finding() {
  at::set_num_threads(1);
  std::vector<ProductShape> all = small_shapes();
  all.insert(all.end(), std::begin(shapes), std::end(shapes));
  int on_lines = 0, inside = 0, of_lines = 0, of_inside = 0;
  for (const ProductShape& shape : all) {
    const Products reference = products_at(shape, 0);
    for (std::int64_t shift = 1; shift < line * lines; ++shift) {
      const bool on_a_line = shift % line == 0;
      if (shift > line && !on_a_line) continue;
      const Products here = products_at(shape, shift);
      (on_a_line ? of_lines : of_inside) += 2;
      (on_a_line ? on_lines : inside) += !same_bits(here.plain, reference.plain) +
                                         !same_bits(here.transposed, reference.transposed);
    }
  }
  return {"same bits on cache lines", on_lines == 0,
          fmt::format("{} of {} products differ; elsewhere in a line {} of {} (such operands are "
                      "copied to a line)",
                      on_lines, of_lines, inside, of_inside)};
}

Finding thread_finding() {
  constexpr int threads = 4;
  at::set_num_threads(1);
  std::vector<at::Tensor> reference;
  for (const ProductShape& shape : shapes) {
    reference.push_back(at::mm(shifted(shape.m, shape.k, 0, 1), shifted(shape.k, shape.n, 0, 2)));
  }
  std::vector<int> differ(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      at::set_num_threads(1);
      for (std::size_t i = 0; i < std::size(shapes); ++i) {
        const ProductShape& shape = shapes[i];
        const at::Tensor out =
            at::mm(shifted(shape.m, shape.k, 0, 1), shifted(shape.k, shape.n, 0, 2));
        differ[static_cast<std::size_t>(t)] += !same_bits(out, reference[i]);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  int sum = 0;
  for (const int each : differ) sum += each;
  return {"same bits from any thread", sum == 0,
          fmt::format("{} of {} products differ ({} threads at once)", sum,
                      threads * std::size(shapes), threads)};
}

std::string kernel_digest(bool portable) {
  use_numerics(portable);
  at::set_num_threads(1);
  Sha256 hash;
  for (const ProductShape& shape : shapes) {
    const at::Tensor product =
        at::mm(shifted(shape.m, shape.k, 0, 1), shifted(shape.k, shape.n, 0, 2));
    add(hash, product);
    add(hash, at::gelu(product));
    add(hash, at::softmax(product, -1));
    add(hash, at::tanh(product));
    add(hash, at::exp(product));
  }
  return hash.finish().hex();
}

Finding portable_finding() {
  // Each library told to use less than this machine has.
  const std::pair<const char*, std::map<std::string, std::string>> limits[] = {
      {"MKL without AVX", {{"MKL_ENABLE_INSTRUCTIONS", "SSE4_2"}}},
      {"oneDNN without AVX", {{"ONEDNN_MAX_CPU_ISA", "SSE41"}}},
      {"libm without AVX2 and FMA",
       {{"GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-AVX512F"}}}};
  Finding out{"portable numerics", true, ""};
  try {
    const std::string portable = digest_in_child("portable"), fast = digest_in_child("fast");
    std::string kept, changed;
    for (const auto& [name, environment] : limits) {
      const bool same = digest_in_child("portable", environment) == portable;
      out.ok = out.ok && same;
      kept +=
          fmt::format("{}{} {}", kept.empty() ? "" : ", ", name, same ? "the same" : "OTHER BITS");
      if (digest_in_child("fast", environment) != fast) changed += fmt::format(", {}", name);
    }
    out.detail = fmt::format("kernel digest {:.12}: {}; fast kernels change with {}", portable,
                             kept, changed.empty() ? "none of these" : changed.substr(2));
  } catch (const Error& error) {
    out.ok = false;
    out.detail = error.what();
  }
  return out;
}

}  // namespace shardproof
