// ctest: invariant timeout=120 processors=2
// saver: a run saves when its config says, keeps what it says, and is the same run whether it waits
// for its saves or not.
#include "train/saver.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

using Ids = std::vector<std::string>;

Config small(const std::vector<std::string>& set) {
  Config config;
  for (const char* key : {"training.steps=6", "run.layout=dp2.zero1", "model.layers=1"}) {
    set_key(config, key);
  }
  config.checkpoint.directory = "in memory";
  for (const std::string& key : set) set_key(config, key);
  check(config);
  return config;
}

Trace train(const Config& config, std::shared_ptr<Storage> storage) {
  RunRequest request;
  request.config = config;
  request.storage = std::move(storage);
  return traced_in_memory(std::move(request));
}

Ids saved(const std::vector<std::string>& set) {
  const std::shared_ptr<Storage> storage = memory_storage();
  train(small(set), storage);
  for (const std::string& id : list_checkpoints(*storage)) {
    EXPECT_TRUE(verify_checkpoint(*storage, id).empty()) << id;
  }
  return list_checkpoints(*storage);
}

Ids ids(std::initializer_list<std::int64_t> steps) {
  Ids out;
  for (const std::int64_t step : steps) out.push_back(step_id(step));
  return out;
}

TEST(Saver, BySteps) {
  EXPECT_EQ(saved({"checkpoint.every=2"}), ids({2, 4, 6}));
  EXPECT_EQ(saved({"checkpoint.every=4"}), ids({4, 6}));
  EXPECT_EQ(saved({"checkpoint.every=4", "checkpoint.last=false"}), ids({4}));
  EXPECT_EQ(saved({}), ids({6}));
}

TEST(Saver, ByTimeAndByCost) {
  // A clock that has always run long enough, and one that never has.
  EXPECT_EQ(saved({"checkpoint.every_minutes=1e-9", "checkpoint.last=false"}),
            ids({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(saved({"checkpoint.every_minutes=1e6", "checkpoint.last=false"}), ids({}));
  // The first measures what a save costs; the next comes after hours.
  EXPECT_EQ(saved({"checkpoint.mtbf_minutes=1e12", "checkpoint.last=false"}), ids({1}));
}

TEST(Saver, KeepsTheLastAndTheMilestones) {
  EXPECT_EQ(saved({"checkpoint.every=1", "checkpoint.keep_last=2"}), ids({5, 6}));
  EXPECT_EQ(saved({"checkpoint.every=1", "checkpoint.keep_last=1", "checkpoint.keep_every=3"}),
            ids({3, 6}));
}

TEST(Saver, InTheBackgroundIsTheSameRunAndTheSameCheckpoints) {
  const std::shared_ptr<Storage> waited = memory_storage(), background = memory_storage();
  const Trace one = train(small({"checkpoint.every=2"}), waited);
  const Trace two = train(
      small({"checkpoint.every=2", "checkpoint.background=true", "checkpoint.synchronous_every=2"}),
      background);
  const Verdict verdict = check_repeat(one, two);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  ASSERT_EQ(list_checkpoints(*background), ids({2, 4, 6}));
  for (const std::string& id : ids({2, 4, 6})) {
    EXPECT_TRUE(verify_checkpoint(*background, id).empty()) << id;
    EXPECT_EQ(read_manifest(*waited, id).state_digest().hex(),
              read_manifest(*background, id).state_digest().hex());
  }
}

TEST(Saver, OneFileOrManyWaitedForOrNotIsTheSameState) {
  std::string digest;
  for (const char* strategy : {"sharded", "full"}) {
    for (const char* background : {"false", "true"}) {
      const std::shared_ptr<Storage> storage = memory_storage();
      train(small({"checkpoint.every=3", fmt::format("checkpoint.strategy={}", strategy),
                   fmt::format("checkpoint.background={}", background)}),
            storage);
      const Manifest manifest = read_manifest(*storage, step_id(3));
      EXPECT_EQ(manifest.files.size(), std::string(strategy) == "full" ? 1u : 2u);
      if (digest.empty()) digest = manifest.state_digest().hex();
      EXPECT_EQ(manifest.state_digest().hex(), digest) << strategy << " " << background;
    }
  }
}

// Refuses to create what belongs to one step, like a disk that is full for a while.
class FullAtStep : public ForwardingStorage {
 public:
  FullAtStep(std::shared_ptr<Storage> inner, std::string id)
      : ForwardingStorage(std::move(inner)), id_(std::move(id)) {}
  std::unique_ptr<File> create(const std::string& path) override {
    if (path.starts_with(id_)) {
      throw Error(ErrorKind::io, "create " + path, "No space left on device");
    }
    return inner().create(path);
  }

 private:
  std::string id_;
};

TEST(Saver, AFailureInTheBackgroundEndsTheRunAndLosesNothing) {
  const std::shared_ptr<Storage> storage = memory_storage();
  try {
    train(small({"checkpoint.every=2", "checkpoint.background=true", "checkpoint.last=false"}),
          std::make_shared<FullAtStep>(storage, step_id(4)));
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(list_checkpoints(*storage).front(), step_id(2));
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(2)).empty());
}

TEST(Saver, KeysThatNeedOthersAreRefusedByName) {
  for (const auto& [key, needs] : std::vector<std::pair<std::string, std::string>>{
           {"checkpoint.keep_every=2", "checkpoint.keep_last"},
           {"checkpoint.synchronous_every=2", "checkpoint.background"}}) {
    try {
      small({key});
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find(needs), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace shardproof
