// trace: see trace.h.
#include "harness/bench/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/temp_folder.h"
#include "harness/bench/measure.h"
#include "invariants/compare_errors.h"
#include "invariants/cover_findings.h"
#include "trace/writer.h"

namespace shardproof::bench {
namespace {

constexpr std::int64_t rows = 2048, columns = 2048;  // of a tensor: 16 MB
constexpr int tensor_megabytes = 16;
constexpr int cut_ranks = 4;
constexpr double asked_ratio = 2, asked_megabytes = 300;

// The elements of every tensor; the files hold them again and again.
std::vector<float> tensor_values() {
  std::vector<float> out(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>((i * 2654435761u) % 1000003) * 1e-3f - 500;
  }
  return out;
}

Box part_of(int tensor, int ranks, int rank) {
  const std::size_t dim = tensor % 2 == 0 ? 0 : 1;
  Box box{{0, 0}, {rows, columns}};
  box.offsets[dim] = share_bound(box.shape[dim], ranks, rank);
  box.shape[dim] = share_bound(box.shape[dim], ranks, rank + 1) - box.offsets[dim];
  return box;
}

std::vector<float> copy_part(const std::vector<float>& whole, const Box& box) {
  std::vector<float> out;
  for (std::int64_t row = 0; row < box.shape[0]; ++row) {
    const auto from = whole.begin() + (box.offsets[0] + row) * columns + box.offsets[1];
    out.insert(out.end(), from, from + box.shape[1]);
  }
  return out;
}

void write_rank(const std::string& directory, int tensors, int ranks, int rank) {
  TraceOptions options;
  options.directory = directory;
  options.capture = {0};
  TraceWriter writer(options, rank, ranks);
  writer.run({{"coords", {{"dp", rank}}}});
  const std::vector<float> whole = tensor_values();
  const std::vector<float> parts[] = {copy_part(whole, part_of(0, ranks, rank)),
                                      copy_part(whole, part_of(1, ranks, rank))};
  std::vector<TensorView> views;
  for (int i = 0; i < tensors; ++i) {
    TensorView view;
    view.place.name = fmt::format("layer.{}.weight", i);
    view.place.global_shape = {rows, columns};
    view.place.box = part_of(i, ranks, rank);
    view.data = parts[i % 2].data();
    views.push_back(view);
  }
  writer.tensors(0, "grad", views);
  StepRecord record;
  record.loss = record.grad_norm = 1;
  writer.step(record);
  writer.end(1);
}

void write_layout(const std::string& directory, int tensors, int ranks) {
  std::filesystem::create_directory(directory);
  for (int rank = 0; rank < ranks; ++rank) write_rank(directory, tensors, ranks, rank);
}

void read_plainly(const std::string& directory) {
  std::vector<char> buffer(std::size_t{1} << 20);
  for (const TensorFileRef& ref : read_trace(directory).files) {
    if (ref.what != "grad") continue;
    const int file = ::open(ref.path.c_str(), O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : 1;
    while (count > 0) count = ::read(file, buffer.data(), buffer.size());
    if (file >= 0) ::close(file);
    if (count < 0) throw Error(ErrorKind::io, ref.path, "read: " + std::string(strerror(errno)));
  }
}

double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

struct Measured {
  double seconds = 0;
  double megabytes = 0;
};

// In a process of its own, so that its peak is its own.
Measured measure_apart(const std::string& what, const std::function<bool()>& work) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(ErrorKind::io, "a pipe", "cannot be opened");
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorKind::io, "a process", "cannot be started");
  if (child == 0) {
    Measured measured;
    const auto start = std::chrono::steady_clock::now();
    bool good = false;
    try {
      good = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "shardproof: %s\n", error.what());
    }
    measured.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    measured.megabytes = peak_megabytes();
    good = good && ::write(ends[1], &measured, sizeof measured) == sizeof measured;
    ::_exit(good ? 0 : 1);
  }
  ::close(ends[1]);
  Measured measured;
  const bool told = ::read(ends[0], &measured, sizeof measured) == sizeof measured;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!told) throw Error(ErrorKind::corrupt, what, "the tensors were not found equal");
  return measured;
}

struct Work {
  const char* what;
  std::function<bool()> run;
  std::vector<double> seconds = {};
  double megabytes = 0;
};

// All that is measured of two layouts; the plain reading first.
std::vector<Work> works(const std::string& whole, const std::string& cut) {
  const auto elements = [=](const char* what) {
    const TensorComparison same = compare_tensors(read_trace(whole), read_trace(cut), 0, what);
    return !same.first && same.incomparable.empty() && same.compared > 0;
  };
  return {{"read",
           [=] {
             read_plainly(whole);
             read_plainly(cut);
             return true;
           }},
          {"bits", [=] { return elements("grad"); }},
          {"errors",
           [=] {
             const Trace left = read_trace(whole), right = read_trace(cut);
             const Trace* references[] = {&left};
             const ErrorComparison errors = compare_errors(left, references, right, 0, "grad");
             return errors.ratio == 0 && errors.incomparable.empty() && errors.tensors > 0;
           }},
          // Reads one layout twice: as what it holds, and beside its other copies.
          {"cover", [=] { return !find_problem(read_trace(cut), 0, "grad"); }}};
}

}  // namespace

Json run_trace_bench(const TraceBenchOptions& options) {
  const int megabytes = options.quick ? 64 : options.megabytes;
  const int tensors = std::max(1, megabytes / tensor_megabytes);
  const TempFolder folder;
  write_layout(folder.file("whole"), tensors, 1);
  write_layout(folder.file("cut"), tensors, cut_ranks);
  std::vector<Work> all = works(folder.file("whole"), folder.file("cut"));
  all.front().run();  // into the cache of files, which all of them read from
  for (int round = 0; round < (options.quick ? 1 : options.rounds); ++round) {
    for (Work& work : all) {
      const Measured measured = measure_apart(work.what, work.run);
      work.seconds.push_back(measured.seconds);
      work.megabytes = std::max(work.megabytes, measured.megabytes);
    }
  }
  const double read = median(all.front().seconds);
  Json out{{"megabytes", tensors * tensor_megabytes}, {"read_seconds", read}};
  out["rows"] = Json::array();
  for (const Work& work : all) {
    Json row{{"what", work.what},
             {"seconds", median(work.seconds)},
             {"ratio", median(work.seconds) / read},
             {"peak_megabytes", work.megabytes},
             {"asked_megabytes", asked_megabytes}};
    if (std::string(work.what) == "bits") row["asked_ratio"] = asked_ratio;
    out["rows"].push_back(row);
  }
  return out;
}

void print_trace_bench(const Json& result) {
  fmt::print("{} MB of tensors on either side\n{:<10}{:>10}{:>10}{:>8}{:>10}{:>8}\n",
             result.at("megabytes").get<int>(), "", "seconds", "of read", "asked", "peak MB",
             "asked");
  for (const Json& row : result.at("rows")) {
    const auto asked = row.find("asked_ratio");
    fmt::print("{:<10}{:>10.2f}{:>10.2f}{:>8}{:>10.0f}{:>8.0f}\n",
               row.at("what").get<std::string>(), row.at("seconds").get<double>(),
               row.at("ratio").get<double>(),
               asked == row.end() ? "" : fmt::format("{:.2f}", asked->get<double>()),
               row.at("peak_megabytes").get<double>(), row.at("asked_megabytes").get<double>());
  }
}

int trace_bench_status(const Json& result) {
  for (const Json& row : result.at("rows")) {
    if (row.at("peak_megabytes") > row.at("asked_megabytes")) return 1;
    if (row.contains("asked_ratio") && row.at("ratio") > row.at("asked_ratio")) return 1;
  }
  return 0;
}

}  // namespace shardproof::bench
