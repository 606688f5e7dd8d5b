// program: what ran: code, libraries, kernels, and the switch to portable numerics.
#include "train/program.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "comm/mpi_communicator.h"

namespace shardproof {
namespace {

std::mutex numerics_mutex;
std::optional<bool> numerics_portable;

int add_object(dl_phdr_info* info, std::size_t, void* names) {
  auto& list = *static_cast<std::vector<std::string>*>(names);
  const std::string path = info->dlpi_name;
  if (path.empty() && list.empty()) list.push_back("/proc/self/exe");
  if (!path.empty() && path.front() == '/') list.push_back(path);
  return 0;
}

void hash_file(Sha256& hash, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
}

// The executable, preloaded objects and our libraries: the link map lists them in this order,
// before what they depend on in turn. Anything past our last library is not ours.
std::string code_digest() {
  std::vector<std::string> objects;
  dl_iterate_phdr(add_object, &objects);
  const auto last_of_ours = std::find_if(objects.rbegin(), objects.rend(), [](const auto& path) {
    return path.find("libshardproof") != std::string::npos;
  });
  objects.erase(last_of_ours.base(), objects.end());
  Sha256 hash;
  for (const std::string& path : objects) {
    if (path.find("libtorch") == std::string::npos) hash_file(hash, path);
  }
  return hash.finish().hex();
}

// MKL's branch in force (3: COMPATIBLE), asked of the copy inside LibTorch; -1 where there is none.
int mkl_branch() {
  using Get = int (*)(int);
  constexpr int all = ~0;
  const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "mkl_serv_cbwr_get"));
  return get == nullptr ? -1 : get(all);
}

std::string one_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string kernels() {
  std::string features;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) features += " avx2";
  if (__builtin_cpu_supports("fma")) features += " fma";
  if (__builtin_cpu_supports("avx512f")) features += " avx512f";
  if (__builtin_cpu_supports("avx512bw")) features += " avx512bw";
#endif
  return fmt::format("cpu{} | aten {} | mkl branch {} | onednn {} | {} | {}", features,
                     at::get_cpu_capability(), mkl_branch(),
                     at::globalContext().userEnabledMkldnn() ? "on" : "off",
                     one_line(at::get_mkl_version()), one_line(at::get_mkldnn_version()));
}

Program make_program() {
  Program program;
  program.code = code_digest();
  program.versions = Json{{"shardproof", SHARDPROOF_VERSION},
                          {"libtorch", TORCH_VERSION},
                          {"mpi", one_line(MpiWorld::library_version())},
                          {"compiler", __VERSION__}};
  program.kernels = kernels();
  return program;
}

}  // namespace

void use_numerics(bool portable) {
  const std::lock_guard lock(numerics_mutex);
  if (numerics_portable.has_value()) {
    if (*numerics_portable == portable) return;
    throw Error(ErrorKind::refused, "numerics.portable",
                fmt::format("{} kernels have run in this process; expected a process of its own",
                            portable ? "fast" : "portable"));
  }
  if (portable) {
    // Read by LibTorch and MKL at their first operation.
    setenv("ATEN_CPU_CAPABILITY", "default", 1);
    setenv("MKL_CBWR", "COMPATIBLE", 1);
    at::globalContext().setUserEnabledMkldnn(false);
    if (at::get_cpu_capability() != "DEFAULT") {
      throw Error(ErrorKind::refused, "numerics.portable",
                  "kernels for " + at::get_cpu_capability() +
                      " are in use already; expected a process of its own");
    }
  }
  numerics_portable = portable;
}

const Program& program() {
  static const Program program = make_program();
  return program;
}

double measure_peak_flops() {
  constexpr std::int64_t n = 256;
  constexpr double flops = 2.0 * n * n * n;
  constexpr auto budget = std::chrono::milliseconds(50);
  const at::Tensor a = at::ones({n, n}, at::kFloat);
  at::Tensor out = at::empty({n, n}, at::kFloat);
  at::mm_out(out, a, a);  // the first call loads kernels
  const Duration start = Clock::real().now();
  Duration spent{};
  int products = 0;
  for (; spent < budget; spent = Clock::real().now() - start, ++products) at::mm_out(out, a, a);
  return flops * products / std::chrono::duration<double>(spent).count();
}

}  // namespace shardproof
