// checkpoint: see checkpoint.h.
#include "harness/bench/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "base/error.h"
#include "checkpoint/background_save.h"
#include "checkpoint/load.h"
#include "checkpoint/verify.h"
#include "comm/thread_communicator.h"
#include "harness/bench/bare_write.h"
#include "harness/bench/measure.h"
#include "harness/bench/peer.h"
#include "harness/child.h"
#include "harness/rank_pool.h"

namespace shardproof::bench {
namespace {

constexpr int ranks = 2;
constexpr std::int64_t parameters = 16, width = 1024;
constexpr double mebi = 1 << 20;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Half of every parameter a rank.
class Half {
 public:
  Half(int megabytes, int rank) {
    const std::int64_t rows = megabytes * std::int64_t{1 << 20} / 4 / parameters / width;
    const std::int64_t elements = rows * width;
    const std::int64_t cut_at = elements / 2 / block_elements * block_elements;
    range_ = rank == 0 ? ElementRange{0, cut_at} : ElementRange{cut_at, elements};
    for (std::int64_t i = 0; i < parameters; ++i) {
      pieces_.push_back(cut(fmt::format("w{:02}", i), {rows, width}, -1, 1).front());
      values_.emplace_back(static_cast<std::size_t>(range_.size()), static_cast<float>(i + rank));
    }
  }
  template <typename Item>
  std::vector<Item> items() {
    std::vector<Item> out;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      out.push_back({"param", pieces_[i], range_, Dtype::f32, values_[i].data()});
    }
    return out;
  }
  const std::vector<std::vector<float>>& values() const { return values_; }

 private:
  ElementRange range_;
  std::vector<PieceSpec> pieces_;
  std::vector<std::vector<float>> values_;
};

// Runs on two thread ranks at once; the time from their common start to the last end.
double on_ranks(const std::function<void(Communicator&)>& body) {
  ThreadWorld world(ranks, std::chrono::seconds(600));
  double seconds = 0;
  run_ranks(
      ranks,
      [&](int rank) {
        const auto comm = world.communicator(rank);
        barrier(*comm);
        const double spent = seconds_of([&] {
          body(*comm);
          barrier(*comm);
        });
        if (rank == 0) seconds = spent;
      },
      [&] { world.revoke_all(); });
  return seconds;
}

// Bytes that the process has had at most since `body` began, above what it had before.
double extra_bytes(const std::function<void()>& body) {
  const auto status = [](const char* key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(key)) return std::stod(line.substr(line.find(':') + 1)) * 1024;
    }
    return 0.0;
  };
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // the peak begins anew
  const double before = status("VmRSS");
  body();
  return std::max(0.0, status("VmHWM") - before);
}

struct Round {
  double save = 0, load = 0, bare = 0, peer_save = 0, peer_load = 0;  // seconds
  double save_memory = 0, load_memory = 0;                            // bytes
};

void write_bare(const std::string& directory, std::vector<Half>& halves, Round& round) {
  std::filesystem::create_directory(directory);
  round.bare = on_ranks([&](Communicator& comm) {
    write_and_sync(fmt::format("{}/bare.{}", directory, comm.rank()),
                   halves[static_cast<std::size_t>(comm.rank())].values());
  });
  std::filesystem::remove_all(directory);
}

void measure_ours(const std::string& directory, std::vector<Half>& halves, Round& round) {
  std::filesystem::create_directory(directory);
  const auto storage = posix_storage(directory, false);
  const auto mine = [&](Communicator& comm) -> Half& {
    return halves[static_cast<std::size_t>(comm.rank())];
  };
  round.save_memory = extra_bytes([&] {
    round.save = on_ranks([&](Communicator& comm) {
      save_checkpoint(*storage, comm, "a", CheckpointFacts{}, mine(comm).items<SaveItem>());
    });
  });
  round.load_memory = extra_bytes([&] {
    round.load = on_ranks([&](Communicator& comm) {
      const Manifest manifest = open_checkpoint(*storage, comm, "a");
      load_state(*storage, manifest, mine(comm).items<LoadItem>());
    });
  });
  std::filesystem::remove_all(directory);
}

void measure_dcp(const std::string& python, const std::string& directory, int megabytes,
                 Round& round) {
  const std::string script = SHARDPROOF_SOURCE_DIR "/harness/bench/peer_dcp.py";
  const auto result =
      run_child({python, script, "--ranks", std::to_string(ranks), "--megabytes",
                 std::to_string(megabytes), "--repeats", "2", "--directory", directory},
                std::chrono::seconds(600));
  const auto line = result.output.rfind("{\"save\"");
  if (result.exit_code != 0 || line == std::string::npos) {
    throw Error(ErrorKind::environment, script,
                fmt::format("exit {}: {}", result.exit_code, result.output));
  }
  const Json json = parse_json(result.output.substr(line), script);
  round.peer_save = json.at("save").get<double>();
  round.peer_load = json.at("load").get<double>();
}

double cpu_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

constexpr int saved_megabytes = 166;  // parameters, masters, two moments of 10.9 M, in float32

RunRequest large_run(int steps) {
  RunRequest request;
  request.config = plain_config("dp2.zero1", ranks, steps);
  make_large(request.config);
  request.config.run.backend = "threads";
  return request;
}

// Saves of one state in the background, one after another while `more` says so (asked on rank 0).
class Saves {
 public:
  explicit Saves(const std::string& directory) : directory_(directory) {
    for (int rank = 0; rank < ranks; ++rank) halves_.emplace_back(saved_megabytes, rank);
    std::filesystem::create_directory(directory);
    storage_ = posix_storage(directory, false);
  }
  ~Saves() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  struct Measured {
    double blocked = 0;    // seconds, of rank 0: until the copy was made
    double cpu = 0;        // of the threads that save, all ranks
    double other_cpu = 0;  // of all that the process did meanwhile, but for these and the copies
  };
  std::vector<Measured> run(const std::function<bool(int done)>& more) {
    std::vector<Measured> out;
    on_ranks([&](Communicator& comm) {
      BackgroundSave save(*storage_,
                          comm.split(0, comm.rank(), background_group, default_deadline(comm)));
      const auto items = halves_[static_cast<std::size_t>(comm.rank())].items<SaveItem>();
      for (int i = 0;; ++i) {
        std::int64_t again = comm.rank() == 0 && more(i) ? 1 : 0;
        broadcast(comm, &again, 1, Dtype::i64, 0);
        if (again == 0) break;
        const Measured one = save_once(comm, save, items);
        if (comm.rank() == 0) out.push_back(one);
      }
    });
    return out;
  }

 private:
  Measured save_once(Communicator& comm, BackgroundSave& save, std::span<const SaveItem> items) {
    Measured out;
    const double before = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double mine = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    out.blocked = seconds_of(
        [&] { save.start(fmt::format("b{}", count_.load()), CheckpointFacts{}, items); });
    double shared[2] = {cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - mine, 0};
    shared[1] = save.finish()->cpu_seconds;
    all_reduce(comm, shared, shared, 2, Dtype::f64, ReduceOp::sum);
    if (comm.rank() == 0) ++count_;
    barrier(comm);  // before the next one is named
    out.cpu = shared[1];
    out.other_cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - before - shared[0] - shared[1];
    return out;
  }

  const std::string directory_;
  std::vector<Half> halves_;
  std::unique_ptr<Storage> storage_;
  std::atomic<int> count_{0};
};

double total(const std::vector<Saves::Measured>& saves, double Saves::Measured::*what) {
  double sum = 0;
  for (const auto& save : saves) sum += save.*what;
  return sum;
}

// A run that trains until `count` saves beside it are done. The seconds of its median step.
double train_beside(Saves& saves, int count, std::vector<Saves::Measured>& measured) {
  constexpr int unbounded = 1 << 20;  // it is stopped
  RunRequest request = large_run(unbounded);
  std::atomic<bool> stop{false}, under_way{false};
  request.stop = &stop;
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    if (result.step < warm_up_steps) return;
    under_way = true;
    under_way.notify_all();
  };
  auto training = std::async(std::launch::async, [&] {
    const std::shared_ptr<void> woken(nullptr, [&](void*) {
      under_way = true;
      under_way.notify_all();
    });
    return measure(request).seconds;
  });
  {
    const std::shared_ptr<void> stopped(nullptr, [&](void*) { stop = true; });
    under_way.wait(false);
    measured = saves.run([&](int done) { return done < count; });
  }
  return training.get();
}

// How long a step of 10.9 M parameters waits for a save in the background, beside the step; and
// the CPU that goes to saves while such a run trains.
Json measure_background(const std::string& directory, bool quick) {
  const double step = measure(large_run(quick ? 5 : 8)).seconds;
  std::vector<double> blocked;
  {
    Saves alone(directory);
    for (const auto& save : alone.run([](int done) { return done < 4; })) {
      blocked.push_back(save.blocked);
    }
    blocked.erase(blocked.begin());  // it finds no room for its copy yet
  }
  std::vector<Saves::Measured> beside;
  Saves saves(directory);
  const double step_beside = train_beside(saves, quick ? 2 : 6, beside);
  const double waits = median(blocked);
  return {
      {"step_ms", step * 1e3},
      {"blocked_ms", waits * 1e3},
      {"share", waits / step},
      {"at_most", 0.05},
      {"cpu_seconds", total(beside, &Saves::Measured::cpu) / static_cast<double>(beside.size())},
      {"cpu_of_training",
       total(beside, &Saves::Measured::cpu) / total(beside, &Saves::Measured::other_cpu)},
      {"step_beside_ms", step_beside * 1e3}};
}

double of(const std::vector<Round>& rounds, const std::function<double(const Round&)>& what) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(what(round));
  return median(values);
}

Json row(const char* name, double ratio, double required) {
  return {{"name", name}, {"ratio", ratio}, {"required", required}};
}

}  // namespace

Json run_checkpoint_bench(const CheckpointBenchOptions& options) {
  const std::string python = find_python(options.python);
  const int megabytes = options.quick ? 32 : options.megabytes;
  const std::string root = options.directory.empty() ? "." : options.directory;
  const std::string folder = fmt::format("{}/bench-checkpoint-{}", root, ::getpid());
  std::filesystem::create_directory(folder);
  const std::shared_ptr<void> gone(nullptr, [&](void*) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  });
  std::vector<Half> halves;
  for (int rank = 0; rank < ranks; ++rank) halves.emplace_back(megabytes, rank);
  std::vector<Round> rounds(options.quick ? 1 : static_cast<std::size_t>(options.rounds));
  for (Round& round : rounds) {
    write_bare(folder + "/bare", halves, round);
    measure_ours(folder + "/ours", halves, round);
    measure_dcp(python, folder + "/dcp", megabytes, round);
  }
  const auto rate = [&](double Round::*what) {
    return of(rounds, [&](const Round& round) { return megabytes / (round.*what); });
  };
  const auto ratio = [&](double Round::*theirs, double Round::*ours) {
    return of(rounds, [&](const Round& round) { return round.*theirs / round.*ours; });
  };
  const double allowed = megabytes / 2.0 + 64;  // the largest shard and 64 MB
  const auto memory = [&](double Round::*what) {
    return of(rounds, [&](const Round& round) { return round.*what / mebi; });
  };
  return {{"megabytes", megabytes},
          {"save",
           {{"ours", rate(&Round::save)},
            {"dcp", rate(&Round::peer_save)},
            {"bare", rate(&Round::bare)}}},
          {"load", {{"ours", rate(&Round::load)}, {"dcp", rate(&Round::peer_load)}}},
          {"ratios",
           {row("save against dcp", ratio(&Round::peer_save, &Round::save), 0.95),
            row("save against a bare write and fsync", ratio(&Round::bare, &Round::save), 0.75),
            row("verified load against dcp", ratio(&Round::peer_load, &Round::load), 0.7)}},
          {"memory",
           {{"save_mb", memory(&Round::save_memory)},
            {"load_mb", memory(&Round::load_memory)},
            {"at_most_mb", allowed}}},
          {"background", measure_background(folder + "/background", options.quick)}};
}

void print_checkpoint_bench(const Json& result) {
  const auto number = [&](const char* pointer) {
    return result.at(Json::json_pointer(pointer)).get<double>();
  };
  fmt::print("{} MB, {} ranks, MB/s        ours     dcp    bare\n",
             result.at("megabytes").get<int>(), ranks);
  fmt::print("{:<24}{:>8.0f}{:>8.0f}{:>8.0f}\n", "save", number("/save/ours"), number("/save/dcp"),
             number("/save/bare"));
  fmt::print("{:<24}{:>8.0f}{:>8.0f}\n\n", "load", number("/load/ours"), number("/load/dcp"));
  for (const Json& each : result.at("ratios")) {
    fmt::print("{:<40}{:>6.2f}  asked {:.2f}\n", each.at("name").get<std::string>(),
               each.at("ratio").get<double>(), each.at("required").get<double>());
  }
  fmt::print("{:<40}{:>6.0f}  at most {:.0f}\n", "memory of a save above the state, MB",
             number("/memory/save_mb"), number("/memory/at_most_mb"));
  fmt::print("{:<40}{:>6.0f}  at most {:.0f}\n", "memory of a load above the state, MB",
             number("/memory/load_mb"), number("/memory/at_most_mb"));
  fmt::print("{:<40}{:>6.3f}  at most {:.2f}  ({:.1f} ms of {:.0f})\n",
             "step kept waiting by a background save", number("/background/share"),
             number("/background/at_most"), number("/background/blocked_ms"),
             number("/background/step_ms"));
  fmt::print("{:<40}{:>6.2f}  s a save, {:.2f} of what training took meanwhile\n",
             "CPU of background saves", number("/background/cpu_seconds"),
             number("/background/cpu_of_training"));
  fmt::print("{:<40}{:>6.0f}  ms, {:.0f} without\n", "step while they are written",
             number("/background/step_beside_ms"), number("/background/step_ms"));
}

int checkpoint_bench_status(const Json& result) {
  bool met = true;
  for (const Json& each : result.at("ratios")) {
    met = met && each.at("ratio").get<double>() >= each.at("required").get<double>();
  }
  const Json& memory = result.at("memory");
  for (const char* key : {"save_mb", "load_mb"}) {
    met = met && memory.at(key).get<double>() <= memory.at("at_most_mb").get<double>();
  }
  const Json& background = result.at("background");
  met = met && background.at("share").get<double>() <= background.at("at_most").get<double>();
  return met ? 0 : 1;
}

}  // namespace shardproof::bench
