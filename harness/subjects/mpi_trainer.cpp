// mpi_trainer: a subject of `accept --subject` in C++ and MPI: a linear regression, data-parallel,
// with momentum and clipping; its checkpoint is one safetensors file that it writes itself.
// usage: mpirun -n N mpi_trainer STEPS SAVE_AT CKPT [--double] [--lost-share] [--resume]
#include "trace/emit/shardproof_trace.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t outs = 4, ins = 16, count = outs * ins, epoch = 24, batch = 12;

double noise(std::uint64_t seed) {  // in [-1, 1), a float's value
  seed = (seed + 1) * 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>(seed >> 40) * 0x1p-23 - 1;
}

template <typename T>
void train(const std::string& ckpt, std::int64_t steps, std::int64_t save_at, bool resume,
           bool lost_share) {
  const MPI_Datatype type = sizeof(T) == 8 ? MPI_DOUBLE : MPI_FLOAT;
  int rank = 0, world = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  std::vector<T> weight(count), momentum(count), gradient(count);
  for (std::int64_t i = 0; i < count; ++i) weight[i] = static_cast<T>(0.125 * noise(i));
  std::vector<double> file(2 * count + 1);  // weight, momentum, the next step
  const std::string head =
      "{\"state\":{\"dtype\":\"F64\",\"shape\":[129],\"data_offsets\":[0,1032]}}";
  std::uint64_t length = head.size();
  if (std::FILE* saved = resume ? std::fopen(ckpt.c_str(), "rb") : nullptr) {
    std::fseek(saved, static_cast<long>(8 + length), SEEK_SET);
    if (std::fread(file.data(), 8, file.size(), saved) != file.size()) MPI_Abort(MPI_COMM_WORLD, 2);
    std::fclose(saved);
    std::copy_n(file.begin(), count, weight.begin());
    std::copy_n(file.begin() + count, count, momentum.begin());
  }
  auto step = static_cast<std::int64_t>(file.back());
  shardproof_trace trace;
  shardproof_trace_open(&trace, rank, world);
  shardproof_trace_run(&trace, "\"data\":{\"size\":24}");
  const auto capture = [&](std::int64_t at, const char* what, const char* name, const T* data) {
    const std::array<std::int64_t, 2> shape = {outs, ins};
    const shardproof_tensor all = {
        name, sizeof(T) == 8 ? "F64" : "F32", data, 2, shape.data(), nullptr, nullptr};
    shardproof_trace_tensors(&trace, at, what, &all, 1);
  };
  capture(step - 1, "param", "weight", weight.data());
  for (; step < steps; ++step) {
    alarm(10);  // a rank that waits longer dies, and the job with it
    shardproof_trace_at(&trace, step, "forward");
    std::vector<std::int64_t> ids;
    double loss = 0, norm = 0;
    std::fill(gradient.begin(), gradient.end(), T(0));
    for (std::int64_t i = rank; i < batch; i += world) {
      const std::int64_t id = (step * batch + i) * 7 % epoch;
      ids.push_back(id);
      for (std::int64_t o = 0; o < outs; ++o) {
        T error = static_cast<T>(-noise(1000 + id * ins + o));  // the target is one of the inputs
        for (std::int64_t n = 0; n < ins; ++n) {
          error += weight[o * ins + n] * static_cast<T>(noise(1000 + id * ins + n));
        }
        loss += static_cast<double>(error) * error / (2 * batch);
        if (i == rank && o == 0) shardproof_trace_at(&trace, step, "backward");
        for (std::int64_t n = 0; n < ins; ++n) {
          gradient[o * ins + n] += error * static_cast<T>(noise(1000 + id * ins + n));
        }
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, gradient.data(), count, type, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (T& each : gradient) {
      each /= static_cast<T>(lost_share ? batch / world : batch);
      norm += static_cast<double>(each) * each;
    }
    norm = std::sqrt(norm);
    shardproof_trace_at(&trace, step, "reduced");
    capture(step, "grad", "weight", gradient.data());
    shardproof_trace_at(&trace, step, "clipped");
    for (T& each : gradient) each *= static_cast<T>(std::min(1.0, 0.5 / norm));
    shardproof_trace_at(&trace, step, "optimizer");
    for (std::int64_t i = 0; i < count; ++i) {
      momentum[i] = T(0.5) * momentum[i] + gradient[i];
      weight[i] -= T(0.25) * momentum[i];
    }
    capture(step, "param", "weight", weight.data());
    capture(step, "moment", "weight/momentum", momentum.data());
    const auto mine = static_cast<std::int64_t>(ids.size());
    shardproof_trace_step(&trace, step, loss, norm, 0.25, mine, ids.data(), mine);
    if (step + 1 != save_at) continue;
    shardproof_trace_at(&trace, step, "save");
    shardproof_trace_checkpoint(&trace, save_at, ckpt.c_str(), 0);
    std::copy(weight.begin(), weight.end(), file.begin());
    std::copy(momentum.begin(), momentum.end(), file.begin() + count);
    file.back() = static_cast<double>(save_at);
    if (rank == 0) {  // under another name until it is whole
      const std::string draft = ckpt + ".tmp";
      std::FILE* out = std::fopen(draft.c_str(), "wb");
      const bool good = out != nullptr && std::fwrite(&length, 8, 1, out) == 1 &&
                        std::fwrite(head.data(), length, 1, out) == 1 &&
                        std::fwrite(file.data(), 8 * file.size(), 1, out) == 1 &&
                        std::fflush(out) == 0 && fsync(fileno(out)) == 0 && std::fclose(out) == 0;
      if (!good || std::rename(draft.c_str(), ckpt.c_str()) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    shardproof_trace_checkpoint(&trace, save_at, ckpt.c_str(), 1);
  }
  shardproof_trace_end(&trace, steps);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto has = [&](const char* flag) {
    return std::find(words.begin(), words.end(), flag) != words.end();
  };
  if (words.size() < 3) MPI_Abort(MPI_COMM_WORLD, 1);
  const auto run = has("--double") ? train<double> : train<float>;
  run(words[2], std::stol(words[0]), std::stol(words[1]), has("--resume"), has("--lost-share"));
  MPI_Finalize();
}
