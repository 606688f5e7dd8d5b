// ctest: invariant timeout=120 processors=2
// A warm start: the weights of a checkpoint and nothing else of it, the same bits on every layout
// and however the weights were cut; its own checkpoints say where it began.
#include "train/warm_start.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/weights_file.h"
#include "comm/thread_communicator.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

void import_alone(Storage& in, const std::string& path, Storage& storage, const std::string& id) {
  ThreadWorld world(1);
  import_weights(in, path, storage, *world.communicator(0), id);
}

Trace train(const Config& config, std::shared_ptr<Storage> storage = nullptr,
            std::optional<std::string> resume = std::nullopt) {
  RunRequest request;
  request.config = config;
  request.storage = std::move(storage);
  request.resume = std::move(resume);
  return traced_in_memory(std::move(request));
}

class WarmStart : public ::testing::Test {
 protected:
  // Ends after three steps on two tensor ranks, with its weights in two pieces.
  void SetUp() override {
    Config config = small_case("tp2", 3);
    config.model.layers = 2;
    first_ = train(config, posix_storage(folder_.file("first"), true));
  }
  Config warm(const std::string& layout, int pieces, const std::string& from) {
    Config config = small_case(layout, 4);
    config.model.layers = 2;
    config.numerics.tensor_pieces = pieces;
    config.training.seed = 5;
    config.training.warm_start = folder_.file(from);
    return config;
  }
  TempFolder folder_;
  Trace first_;
};

void expect_pass(const Verdict& verdict) {
  EXPECT_EQ(verdict.outcome, Outcome::pass)
      << verdict.reason << (verdict.difference ? " " + verdict.difference->print() : "");
}

TEST_F(WarmStart, HasTheSameBitsOnEveryLayoutAndIsNotTheColdRun) {
  const Trace one = train(warm("dp1", 2, "first"));
  EXPECT_EQ(one.ranks[0].steps.front().step, 0);
  for (const char* layout : {"dp2.zero1", "dp2.tp2.zero3"}) {
    expect_pass(check_layout(one, train(warm(layout, 2, "first"))));
  }
  Config cold = warm("dp1", 2, "first");
  cold.training.warm_start.clear();
  EXPECT_NE(train(cold).ranks[0].steps.front().loss, one.ranks[0].steps.front().loss);
}

TEST_F(WarmStart, WeightsInOtherPiecesOrFromAPlainFileAreTheSameWeights) {
  const auto storage = posix_storage(folder_.file("first"), false);
  const auto files = posix_storage(folder_.path(), false);
  export_weights(*storage, read_manifest(*storage, "step-00000003"), *files, "weights.safetensors");
  import_alone(*files, "weights.safetensors", *posix_storage(folder_.file("plain"), true), "w");
  for (const int pieces : {1, 2}) {
    expect_pass(check_layout(train(warm("dp1", pieces, "first")),
                             train(warm("dp2.zero1", pieces, "plain/w"))));
  }
}

TEST_F(WarmStart, ItsCheckpointsSayWhereItBeganAndResumeWithoutIt) {
  Config config = warm("dp2.zero1", 2, "first/step-00000003");
  config.checkpoint.directory = "in memory";
  config.checkpoint.every = 2;
  const std::shared_ptr<Storage> storage = memory_storage();
  const Trace uncut = train(config, storage);
  const Json origin = read_manifest(*storage, "step-00000002").facts.origin;
  EXPECT_EQ(origin, origin_of(config.training.warm_start));
  EXPECT_EQ(origin.at("checkpoint"), "step-00000003");
  std::filesystem::remove_all(folder_.file("first"));
  expect_pass(check_resume(uncut, train(config, storage, "step-00000002"), 2));
  EXPECT_EQ(read_manifest(*storage, "step-00000004").facts.origin, origin);
}

TEST_F(WarmStart, AnotherModelOrNothingThereIsRefusedByName) {
  Config wide = warm("dp1", 2, "first");
  wide.model.width *= 2;
  expect_error(ErrorKind::refused, {"expected F32 ["}, [&] { train(wide); });
  Config shallow = warm("dp2", 2, "first");
  shallow.model.layers = 1;
  expect_error(ErrorKind::refused, {"blocks.1."}, [&] { train(shallow); });
  expect_error(ErrorKind::bad_input, {"none"}, [&] { train(warm("dp1", 2, "none")); });
}

}  // namespace
}  // namespace shardproof
