// ctest: invariant timeout=120
// Each item of a checkpoint matters: a loader that ignores a refusal, or leaves one item out, goes
// on as another run, and the resume law says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "checkpoint/load.h"
#include "train/trainer_testing.h"

namespace shardproof {
namespace {

using testing::Job;
using testing::Ran;
using testing::small;
using testing::train;

// A loader that takes any checkpoint for its own, and leaves out one item of it: a kind of state
// that the plan then keeps as it began, or a fact.
class Careless : public Checkpointer {
 public:
  Careless(Storage& storage, Communicator& comm, std::string forgets)
      : storage_(storage), inner_(make_checkpointer(storage, comm)), forgets_(std::move(forgets)) {}

  Loaded load(Plan& plan, const std::string&, const CheckpointFacts& mine) override {
    std::map<void*, std::vector<float>> before;
    const std::set<std::string> kinds{"param", "master", "exp_avg", "exp_avg_sq"};
    const bool state = kinds.contains(forgets_);
    for (const StateShard& shard :
         state ? plan.shards(forgets_, false) : std::vector<StateShard>()) {
      const auto* data = static_cast<const float*>(shard.data);
      before[shard.data].assign(data, data + shard.range.size());
    }
    const Manifest manifest = read_manifest(storage_, list_checkpoints(storage_).back());
    CheckpointFacts facts = inner_->load(plan, manifest.id, manifest.facts).facts;
    for (const auto& [data, values] : before) {
      std::copy(values.begin(), values.end(), static_cast<float*>(data));
    }
    plan.loaded();
    if (forgets_ == "step") facts.step = mine.step;
    if (forgets_ == "cursor") facts.cursor = mine.cursor;
    return {facts};
  }
  Loaded load_new_case(Plan& plan, const std::string& id, const CheckpointFacts& mine) override {
    return inner_->load_new_case(plan, id, mine);
  }
  Digest state_digest(Plan& plan) override { return inner_->state_digest(plan); }
  std::string save(Plan& plan, const CheckpointFacts& facts) override {
    return inner_->save(plan, facts);
  }
  void save_in_background(Plan&, const CheckpointFacts&) override {}
  std::string ended(bool) override { return ""; }
  PruneReport prune(const Retention&, const std::set<std::string>&) override { return {}; }
  bool decide(bool mine) override { return mine; }

 private:
  Storage& storage_;
  std::unique_ptr<Checkpointer> inner_;
  std::string forgets_;
};

std::function<std::unique_ptr<Checkpointer>(Storage&, Communicator&)> careless(std::string item) {
  return [item = std::move(item)](Storage& storage, Communicator& comm) {
    return std::make_unique<Careless>(storage, comm, item);
  };
}

bool same_bits(const Ran& a, const Ran& b) {
  bool same = a.state == b.state && a.steps.size() == b.steps.size();
  for (std::size_t i = 0; same && i < a.steps.size(); ++i) {
    const StepResult &x = a.steps[i], &y = b.steps[i];
    same = x.step == y.step && x.loss == y.loss && x.grad_norm == y.grad_norm && x.lr == y.lr &&
           x.tokens == y.tokens;
  }
  return same;
}

// Each item of a checkpoint matters: a run that goes on without it walks elsewhere.
TEST(Trainer, AResumeThatForgetsAnyItemIsNotTheSameRun) {
  Job uncut(small(2, 1, 5));
  uncut.config.model.dropout = 0.1;
  uncut.config.optimizer.warmup = 3;
  uncut.config.data.ignored = 0.4;
  uncut.storage = memory_storage();
  uncut.save_after = 2;
  const Ran whole = train(uncut);
  const auto rest_of = [&](Job job) {
    job.save_after = -1;
    job.resume = true;
    Ran rest = train(job);
    rest.steps.insert(rest.steps.begin(), whole.steps.begin(), whole.steps.begin() + 2);
    return rest;
  };
  Job careful = uncut;
  careful.checkpointer = careless("nothing");
  EXPECT_TRUE(same_bits(rest_of(careful), whole));
  for (const char* item : {"param", "master", "exp_avg", "exp_avg_sq", "step", "cursor"}) {
    Job job = uncut;
    job.checkpointer = careless(item);
    EXPECT_FALSE(same_bits(rest_of(job), whole)) << item;
  }
  // Facts that the loader does not compare: the run goes on as another one.
  const std::map<std::string, const char*> others{{"seeds", "training.seed=7"},
                                                  {"schedule", "optimizer.warmup=4"},
                                                  {"parameter groups", "optimizer.no_decay=[]"},
                                                  {"data", "data.ignored=0.2"},
                                                  {"config", "training.clip=0.25"},
                                                  {"logical pieces", "numerics.sequence_pieces=1"}};
  for (const auto& [item, assignment] : others) {
    Job job = careful;
    set_key(job.config, assignment);
    EXPECT_FALSE(same_bits(rest_of(job), whole)) << item;
  }
}

}  // namespace
}  // namespace shardproof
