// fake_subject: a training program in the small for the tests of the judge, torch-free: a parent
// that starts a process a rank and ends the job when one of them dies, and ranks that train one
// matrix on numbers, each knowing what the others add. Traces itself. Its mistakes are switched on
// by --wrong NAME, its benign variants by --reversed.
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/safetensors.h"
#include "trace/writer.h"

namespace {

using namespace shardproof;
namespace fs = std::filesystem;

constexpr std::int64_t rows = 4, columns = 6, size = rows * columns, batch = 4, samples = 16;
constexpr auto patience = std::chrono::milliseconds(250);  // of the parent, once a rank is stopped

struct Options {
  int ranks = 1;
  std::int64_t steps = 6, save = -1;
  std::string checkpoint, wrong;
  bool resume = false, reversed = false, float64 = false;
  bool is(const char* name) const { return wrong == name; }
};

Options parse(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (word == "--ranks") out.ranks = std::stoi(value());
    if (word == "--steps") out.steps = std::stoll(value());
    if (word == "--save-at") out.save = std::stoll(value());
    if (word == "--ckpt") out.checkpoint = value();
    if (word == "--wrong") out.wrong = value();
    out.resume = out.resume || word == "--resume";
    out.reversed = out.reversed || word == "--reversed";
    out.float64 = out.float64 || word == "--float64";
  }
  return out;
}

// Shared by all ranks: how many have come to the end of a step.
struct Meeting {
  std::atomic<int> arrived[64];
};

template <typename Real>
class Rank {
 public:
  Rank(const Options& options, int rank, Meeting& meeting)
      : options_(options),
        rank_(rank),
        meeting_(meeting),
        trace_(trace_options(options), rank, options.ranks) {
    const Random random(7, Purpose::test);
    for (std::int64_t i = 0; i < size; ++i) weight_[i] = Real(0.5f * random.normal(i));
    if (options.resume) load();
  }

  int run() {
    trace_.run(Json{{"coords", {{"dp", rank_}}}, {"code", "fake"}, {"data", {{"size", samples}}}});
    capture(first_ - 1, "param", weight_);
    for (std::int64_t step = first_; step < options_.steps; ++step) {
      if (options_.is("early_end") && step == 2 && rank_ == options_.ranks - 1) {
        std::fprintf(stderr, "RuntimeError: no more memory for step 2\n");
        return 3;
      }
      if (options_.is("binary_end") && step == 2 && rank_ == options_.ranks - 1) {
        std::fprintf(stderr, "caf\xE9 %s\xC3\n", std::string(198, 'x').c_str());
        return 3;
      }
      while (options_.is("hang") && step == 2 && rank_ == options_.ranks - 1) ::pause();
      train(step);
      const bool again = options_.is("saves_again") && (step + 1) % options_.save == 0;
      if (step + 1 == options_.save || again) save(step);
    }
    trace_.end(options_.steps);
    return 0;
  }

 private:
  static TraceOptions trace_options(const Options& options) {
    std::map<std::string, std::string> environment;
    for (const char* name : {"TRACE", "TENSORS", "MATCH", "DIGEST", "FAULT"}) {
      const std::string variable = std::string("SHARDPROOF_") + name;
      for (char** each = environ; *each != nullptr; ++each) {
        const std::string text = *each;
        if (text.starts_with(variable + "=")) {
          environment[variable] = text.substr(variable.size() + 1);
        }
      }
    }
    if (options.is("no_trace")) environment.erase("SHARDPROOF_TRACE");
    return TraceOptions::from_environment(environment);
  }

  std::vector<std::int64_t> samples_of(std::int64_t step, int rank) const {
    const std::int64_t share = batch / options_.ranks;
    const std::int64_t at = options_.is("sampler_reset") ? step - first_ : step;
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < share; ++i) {
      const bool doubled = options_.is("duplicate") && rank == 1 && i == 0;
      out.push_back((at * batch + (doubled ? 0 : rank * share + i)) % samples);
    }
    if (options_.reversed) std::reverse(out.begin(), out.end());
    return out;
  }

  // The gradient of half the squared distance of the weights from noise of the sample.
  std::vector<Real> partial(std::int64_t step, int rank, double& loss) const {
    std::vector<Real> out(size);
    for (const std::int64_t sample : samples_of(step, rank)) {
      const Random noise(9, Purpose::test, 0, static_cast<std::uint32_t>(sample));
      for (std::int64_t i = 0; i < size; ++i) {
        const Real distance = weight_[i] - Real(noise.normal(i));
        out[i] += distance;
        loss += 0.5 * static_cast<double>(distance) * static_cast<double>(distance);
      }
    }
    return out;
  }

  void train(std::int64_t step) {
    trace_.at(step, Phase::forward);
    trace_.at(step, Phase::backward);
    double loss = 0;
    std::vector<Real> gradient(size);
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const std::vector<Real> part = partial(step, rank, loss);
      for (std::int64_t i = 0; i < size; ++i) gradient[i] += part[i];
    }
    const Real count = Real(options_.is("lost_1k") ? batch / options_.ranks : batch);
    double squares = 0;
    for (Real& each : gradient) {
      each /= count;
      if (options_.is("random")) each += Real(1e-3 * (::getppid() % 977));
      squares += static_cast<double>(each) * static_cast<double>(each);
    }
    trace_.at(step, Phase::reduced);
    capture(step, "grad", gradient);
    trace_.at(step, Phase::optimizer);
    for (std::int64_t i = 0; i < size; ++i) {
      moment_[i] = Real(0.9f) * moment_[i] + gradient[i];
      weight_[i] -= Real(0.05f) * moment_[i];
    }
    if (options_.is("drift") && rank_ > 0) weight_[5] += Real(0.125f);
    StepRecord record;
    record.step = step;
    record.loss = loss / batch;
    record.grad_norm = std::sqrt(squares);
    record.lr = 0.05;
    record.samples = samples_of(step, rank_);
    record.tokens = static_cast<std::int64_t>(record.samples.size());
    trace_.step(record);
    capture(step, "param", weight_);
    capture(step, "moment", moment_, "/exp_avg");
    meet(step);
  }

  void capture(std::int64_t step, const char* what, const std::vector<Real>& values,
               const char* suffix = "") {
    if (!trace_.wants_tensors(step)) return;
    TensorView view;
    view.place.name = std::string("w") + suffix;
    view.place.global_shape = {rows, columns};
    view.place.box = {{0, 0}, {rows, columns}};
    view.dtype = sizeof(Real) == 8 ? Dtype::f64 : Dtype::f32;
    view.data = values.data();
    trace_.tensors(step, what, {&view, 1});
  }

  // Ends with the job when another rank does not come.
  void meet(std::int64_t step) {
    std::atomic<int>& arrived = meeting_.arrived[step];
    ++arrived;
    while (arrived < options_.ranks) ::usleep(200);
  }

  std::string state_file() const { return options_.checkpoint + "/state.safetensors"; }

  void save(std::int64_t step) {
    if (options_.is("saves_alone") && rank_ != 0) return;
    if (!options_.is("no_save_phase")) trace_.at(step, Phase::save);
    if (rank_ != 0) return;
    const std::string told = options_.is("saves_elsewhere") ? "." : options_.checkpoint;
    trace_.checkpoint(step + 1, told, false);
    fs::create_directories(options_.checkpoint);
    if (options_.is("leaves_fifo")) ::mkfifo((options_.checkpoint + "/fifo").c_str(), 0600);
    std::vector<SafetensorsEntry> entries = {{"w", Dtype::f32, {size}}, {"m", Dtype::f32, {size}}};
    std::string bytes = safetensors_head(entries, {{"step", std::to_string(step + 1)}});
    for (const std::vector<Real>* values : {&weight_, &moment_}) {
      const std::vector<float> single(values->begin(), values->end());
      bytes.append(reinterpret_cast<const char*>(single.data()), sizeof(float) * size);
    }
    if (options_.is("cut_checkpoint")) bytes.resize(bytes.size() - 8);
    std::ofstream(state_file() + ".part", std::ios::binary) << bytes;
    fs::rename(state_file() + ".part", state_file());
    trace_.checkpoint(step + 1, told, true);
  }

  // Trains again up to the checkpoint's step, of which it knows from its command.
  void retrain() {
    for (; first_ < options_.save; ++first_) {
      double loss = 0;
      std::vector<Real> gradient(size);
      for (int rank = 0; rank < options_.ranks; ++rank) {
        const std::vector<Real> part = partial(first_, rank, loss);
        for (std::int64_t i = 0; i < size; ++i) gradient[i] += part[i];
      }
      for (std::int64_t i = 0; i < size; ++i) {
        moment_[i] = Real(0.9f) * moment_[i] + gradient[i] / Real(batch);
        weight_[i] -= Real(0.05f) * moment_[i];
      }
    }
  }

  void load() {
    if (options_.is("retrains")) return retrain();
    if (options_.is("afresh") && !fs::exists(state_file())) return;
    std::ifstream file(state_file(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const SafetensorsHeader header = parse_safetensors(
        std::as_bytes(std::span(bytes.data(), bytes.size())), bytes.size(), state_file());
    const auto read = [&](const char* name, std::vector<Real>& into) {
      const float* from = reinterpret_cast<const float*>(bytes.data() + header.data_begin +
                                                         header.find(name)->begin);
      into.assign(from, from + size);
    };
    read("w", weight_);
    if (!options_.is("moments_lost")) read("m", moment_);
    first_ = std::stoll(header.metadata.at("step"));
  }

  const Options& options_;
  const int rank_;
  Meeting& meeting_;
  TraceWriter trace_;
  std::int64_t first_ = 0;
  std::vector<Real> weight_ = std::vector<Real>(size), moment_ = std::vector<Real>(size);
};

int run_rank(const Options& options, int rank, Meeting& meeting) try {
  if (options.float64) return Rank<double>(options, rank, meeting).run();
  return Rank<float>(options, rank, meeting).run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  return 1;
}

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find(") T") != std::string::npos;
}

// The exit code of the job: that of the first rank that does not end well.
int watch(std::set<pid_t> ranks, const Options& options) {
  auto stopped = std::chrono::steady_clock::time_point::max();
  int code = 0;
  while (!ranks.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      ranks.erase(ended);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    const auto now = std::chrono::steady_clock::now();
    for (const pid_t pid : ranks) {
      if (is_stopped(pid)) stopped = std::min(stopped, now);
    }
    const bool given_up = stopped != stopped.max() && now > stopped + patience;
    if (code != 0 || given_up) {
      while (options.is("deaf")) ::pause();
      if (options.is("leaves_ranks")) return 1;
      for (const pid_t pid : ranks) ::kill(pid, SIGKILL);
      return code == 0 ? 1 : code;
    }
    ::usleep(1000);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  void* page =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* meeting = new (page) Meeting;
  std::set<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(run_rank(options, rank, *meeting));
    ranks.insert(pid);
  }
  const int code = watch(ranks, options);
  if (code != 0) return code;
  if (options.is("orphan") && ::fork() == 0) {
    ::setsid();
    std::ofstream("orphan.pid") << ::getpid() << std::endl;
    for (;;) ::pause();
  }
  if (options.is("dies_after_end")) std::abort();
  while (options.is("never_ends")) ::pause();
  return 0;
}
