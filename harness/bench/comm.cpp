// comm: times blocks of calls and compares medians.
#include "harness/bench/comm.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/mpi_communicator.h"
#include "comm/thread_communicator.h"
#include "harness/bench/mpi_peer.h"
#include "harness/child.h"
#include "harness/control.h"
#include "harness/launcher.h"
#include "harness/rank_pool.h"

namespace shardproof::bench {
namespace {

struct Size {
  std::size_t bytes;
  int repeats;
};

constexpr std::size_t small_bytes = 4096, large_bytes = std::size_t{64} << 20;
constexpr int blocks = 3;  // the repeats are cut into blocks, so that two subjects take turns

std::vector<Size> sizes(bool quick) {
  std::vector<Size> all{{4, 1500}, {small_bytes, 1500}, {262'144, 300}, {large_bytes, 9}};
  if (quick) {
    for (Size& size : all) size.repeats = std::max(size.repeats / 10, blocks);
  }
  return all;
}

using AllReduce = std::function<void(const float* send, float* recv, std::size_t count)>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Median microseconds of each subject, blocks of calls in turn, each block after one untimed call.
std::vector<double> time_in_turns(const std::vector<AllReduce>& subjects, const Size& size,
                                  int ranks) {
  const std::size_t count = size.bytes / sizeof(float);
  const std::vector<float> send(count, 1.0f);
  std::vector<float> recv(count, 0.0f);
  std::vector<std::vector<double>> times(subjects.size());
  for (int block = 0; block < blocks; ++block) {
    for (std::size_t s = 0; s < subjects.size(); ++s) {
      subjects[s](send.data(), recv.data(), count);
      for (int i = 0; i < size.repeats / blocks; ++i) {
        const Duration begin = Clock::real().now();
        subjects[s](send.data(), recv.data(), count);
        const std::chrono::duration<double, std::micro> time = Clock::real().now() - begin;
        times[s].push_back(time.count());
      }
      SP_CHECK_EQ(recv[0], static_cast<float>(ranks));
      SP_CHECK_EQ(recv[count - 1], static_cast<float>(ranks));
      std::fill(recv.begin(), recv.end(), 0.0f);
    }
  }
  std::vector<double> medians;
  for (const auto& of_subject : times) medians.push_back(median(of_subject));
  return medians;
}

AllReduce ours(Communicator& comm) {
  return [&comm](const float* send, float* recv, std::size_t count) {
    all_reduce(comm, send, recv, count, Dtype::f32, ReduceOp::sum);
  };
}

Json measure_threads(int ranks, bool quick) {
  Json rows = Json::array();
  ThreadWorld world(ranks);
  run_ranks(
      ranks,
      [&](int rank) {
        const auto comm = world.communicator(rank);
        for (const Size& size : sizes(quick)) {
          const double median = time_in_turns({ours(*comm)}, size, ranks)[0];
          if (rank == 0) rows.push_back({{"bytes", size.bytes}, {"threads_us", median}});
        }
      },
      [&] { world.revoke_all(); });
  return rows;
}

// Adds the MPI columns to the rows.
std::string measure_mpi(int ranks, bool quick, Json& rows) {
  std::string library, other_output;
  LaunchRequest request;
  request.ranks = ranks;
  request.command = {own_executable(), "bench", "comm-rank"};
  if (quick) request.command.push_back("--quick");
  request.on_output = [&](int rank, const std::string& line) {
    if (rank != 0 || !line.starts_with("{")) {
      other_output += line + "\n";
      return;
    }
    const Json got = parse_json(line, "bench comm-rank");
    if (got.contains("library")) library = got.at("library").get<std::string>();
    for (Json& row : rows) {
      if (!got.contains("bytes") || row.at("bytes") != got.at("bytes")) continue;
      row["mpi_us"] = got.at("mpi_us");
      row["plain_us"] = got.at("plain_us");
    }
  };
  const LaunchResult result = launch(request);
  if (!result.ok()) {
    for (const RankEnd& end : result.ranks) other_output += end.error + "\n";
    throw Error(ErrorKind::environment, "bench comm", "the MPI ranks failed: " + other_output);
  }
  return library;
}

Json asked_of(const Json& rows) {
  Json asked = Json::array();
  const auto ask = [&](const std::string& what, double limit, double got) {
    asked.push_back({{"what", what}, {"limit_us", limit}, {"got_us", got}, {"met", got <= limit}});
  };
  for (const Json& row : rows) {
    if (row.at("bytes") == small_bytes) {
      ask("4 KiB on thread ranks, at most 60 us", 60, row.at("threads_us").get<double>());
    }
    if (row.at("bytes") == large_bytes && row.contains("plain_us")) {
      ask("64 MiB on thread ranks, at most plain MPI", row.at("plain_us").get<double>(),
          row.at("threads_us").get<double>());
    }
  }
  return asked;
}

}  // namespace

Json run_comm_bench(const CommBenchOptions& options) {
  Json rows = measure_threads(options.ranks, options.quick);
  Json result{{"ranks", options.ranks}, {"cores", std::thread::hardware_concurrency()}};
  if (!find_mpirun().empty()) result["mpi"] = measure_mpi(options.ranks, options.quick, rows);
  result["asked"] = asked_of(rows);
  result["rows"] = std::move(rows);
  return result;
}

void print_comm_bench(const Json& result) {
  const std::string mpi = result.value("mpi", std::string("no mpirun was found: not measured"));
  fmt::print("all-reduce, fp32 sum, {} ranks on {} cores, median us on rank 0\nMPI: {}\n\n",
             result.at("ranks").get<int>(), result.at("cores").get<int>(), mpi);
  fmt::print("{:>12}{:>14}{:>14}{:>16}\n", "bytes", "thread ranks", "MPI ranks", "MPI_Allreduce");
  for (const Json& row : result.at("rows")) {
    const auto cell = [&row](const char* key) {
      return row.contains(key) ? fmt::format("{:.1f}", row.at(key).get<double>()) : "-";
    };
    fmt::print("{:>12}{:>14}{:>14}{:>16}\n", row.at("bytes").get<std::size_t>(), cell("threads_us"),
               cell("mpi_us"), cell("plain_us"));
  }
  fmt::print("\n");
  for (const Json& one : result.at("asked")) {
    fmt::print("{:<45}{:>12.1f} us of {:>10.1f}  {}\n", one.at("what").get<std::string>(),
               one.at("got_us").get<double>(), one.at("limit_us").get<double>(),
               one.at("met").get<bool>() ? "met" : "NOT MET");
  }
}

int comm_bench_status(const Json& result) {
  for (const Json& one : result.at("asked")) {
    if (!one.at("met").get<bool>()) return 1;
  }
  return result.contains("mpi") ? 0 : 3;
}

int comm_bench_rank(const Control& control, bool quick) {
  ControlClient client(control.address, control.token, control.rank);
  int code = 0;
  try {
    MpiWorld world;
    const auto comm = world.communicator();
    const auto say = [&](const Json& line) {
      if (comm->rank() != 0) return;
      fmt::print("{}\n", line.dump());
      std::fflush(stdout);
    };
    const std::string library = MpiWorld::library_version();  // "Open MPI v5.0.11, package: ..."
    say({{"library", library.substr(0, library.find(','))}});
    for (const Size& size : sizes(quick)) {
      const auto medians = time_in_turns({ours(*comm), plain_all_reduce}, size, comm->size());
      say({{"bytes", size.bytes}, {"mpi_us", medians[0]}, {"plain_us", medians[1]}});
    }
  } catch (const Error& error) {
    client.error(error.what());
    code = exit_code(error.kind());
  }
  client.done(code);
  return code;
}

}  // namespace shardproof::bench
