// trainer_testing: trains small Cases over real parts on thread ranks, for the trainer's tests.
// Test support; not part of any library.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/storage.h"
#include "parallel/make_plan.h"
#include "parallel/thread_ranks.h"
#include "train/case_testing.h"
#include "train/sections.h"
#include "train/trainer.h"

namespace shardproof::testing {

// With 4 micro-batches a step and few samples.
inline Config small(int ranks, int zero, int steps = 3) {
  Config config = small_case("dp" + std::to_string(ranks) + ".zero" + std::to_string(zero), steps);
  config.data.samples = 64;
  config.training.global_batch = 8;
  return config;
}

inline std::shared_ptr<const Dataset> corpus(const Config& config) {
  return open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                      static_cast<std::uint64_t>(config.training.seed));
}

struct Job {
  explicit Job(Config given) : config(std::move(given)) {}
  Config config;
  std::shared_ptr<const Dataset> dataset;  // null: the corpus of the config
  std::shared_ptr<Storage> storage;
  int save_after = -1;  // steps
  bool resume = false;
  TraceOptions trace;
  Hooks* hooks = nullptr;
  // Of a rank, instead of the plain one; null: none.
  std::function<std::unique_ptr<Checkpointer>(Storage&, Communicator&)> checkpointer;
};

struct Ran {
  std::vector<StepResult> steps;
  std::string state;  // SHA-256 over parameters and moments of rank 0's replica and all shares
};

inline void expect_same_bits(const Ran& a, const Ran& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.steps[i].loss),
              std::bit_cast<std::uint64_t>(b.steps[i].loss));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.steps[i].grad_norm),
              std::bit_cast<std::uint64_t>(b.steps[i].grad_norm));
    EXPECT_EQ(a.steps[i].step, b.steps[i].step);
    EXPECT_EQ(a.steps[i].tokens, b.steps[i].tokens);
  }
  EXPECT_EQ(a.state, b.state);
}

// The whole state by global element: shares of all ranks laid into one arena per kind.
class State {
 public:
  void add(Plan& plan) {
    const std::lock_guard lock(mutex_);
    for (const char* kind : {"param", "master", "exp_avg", "exp_avg_sq"}) {
      auto& all = kinds_[kind];
      all.resize(static_cast<std::size_t>(plan.table().elements()));
      for (const StateShard& shard : plan.shards(kind, false)) {
        const auto* from = static_cast<const float*>(shard.data);
        const std::int64_t at = plan.table().range(shard.piece_index).lo + shard.range.lo;
        std::copy(from, from + shard.range.size(), all.begin() + at);
      }
    }
  }
  std::string digest() const {
    Sha256 hash;
    for (const auto& [kind, all] : kinds_) hash.update(all.data(), all.size() * sizeof(float));
    return hash.finish().hex();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<float>> kinds_;
};

inline Ran train(const Job& job) {
  const Config& config = job.config;
  const Layout layout = parse_layout(config.run.layout);
  const auto dataset = job.dataset ? job.dataset : corpus(config);
  Ran ran;
  State state;
  on_thread_ranks(layout.world(), [&](Communicator& comm) {
    MemoryLedger ledger;
    const MemoryLedger::Install installed(ledger);
    Mesh mesh(comm, layout);
    const auto plan = make_plan(mesh, plan_of(config));
    Loader loader(dataset, loader_of(config), plan->micro_batches());
    std::unique_ptr<Checkpointer> checkpoints;
    if (job.storage) {
      checkpoints = job.checkpointer ? job.checkpointer(*job.storage, comm)
                                     : make_checkpointer(*job.storage, comm);
    }
    TraceWriter trace(job.trace, comm.rank(), comm.size());
    Metrics metrics("");
    Hooks none;
    Trainer trainer({config, *plan, loader, *dataset, program(), trace, metrics,
                     job.hooks ? *job.hooks : none, checkpoints.get(), &ledger});
    trace.run(Json::object());
    if (job.resume) trainer.resume("");
    trainer.trace_start();
    while (trainer.next_step() < config.training.steps) {
      const StepResult result = trainer.step();
      if (comm.rank() == 0) ran.steps.push_back(result);
      if (trainer.next_step() == job.save_after) trainer.save();
    }
    trace.end(trainer.next_step());
    state.add(*plan);
  });
  ran.state = state.digest();
  return ran;
}

}  // namespace shardproof::testing
