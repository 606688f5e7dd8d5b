// ctest: invariant timeout=120 processors=2
// The strategy "seed": what is saved is a place and a digest; a resume trains again from the
// beginning on any layout, proves that it has the state that was there, and goes on with the same
// bits; what cannot be trained again is refused when it would be saved.
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "harness/continued.h"
#include "harness/layout_run.h"
#include "harness/world.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"
#include "train/manifest_testing.h"

namespace shardproof {
namespace {

Config seeds(const std::string& layout, int steps = 4) {
  Config config = small_case(layout, steps);
  config.data.samples = 40;  // so that epochs end on the way
  config.checkpoint.directory = "in memory";
  config.checkpoint.every = 2;
  config.checkpoint.last = false;
  config.checkpoint.strategy = "seed";
  return config;
}

Trace run(const Config& config, std::shared_ptr<Storage> storage,
          std::optional<std::string> resume = std::nullopt) {
  RunRequest request;
  request.config = config;
  request.storage = std::move(storage);
  request.resume = std::move(resume);
  return traced_in_memory(std::move(request));
}

void expect_pass(const Verdict& verdict) {
  EXPECT_EQ(verdict.outcome, Outcome::pass)
      << verdict.check << ": " << verdict.reason
      << (verdict.difference ? " " + verdict.difference->print() : "");
}

TEST(SeedStrategy, AnyLayoutComputesTheStateAgainAndGoesOnWithTheSameBits) {
  const std::shared_ptr<Storage> storage = memory_storage();
  const Trace uncut = run(seeds("dp2.zero1"), storage);
  EXPECT_EQ(storage->list("").size(), 2u);  // two manifests
  for (const char* layout : {"dp2.zero1", "dp1", "dp2.tp2.zero3"}) {
    const Trace resumed = run(seeds(layout), storage, "step-00000002");
    expect_pass(check_resume(uncut, resumed, 2));
    expect_pass(check_data(resumed, &uncut));
  }
  // A background save, and one that begins behind a resume from tensors, keep the same.
  const std::shared_ptr<Storage> mixed = memory_storage();
  Config config = seeds("dp2.zero1", 2);
  config.checkpoint.strategy = "sharded";
  run(config, mixed);
  config = seeds("dp2.zero1");
  config.checkpoint.background = true;
  run(config, mixed, "step-00000002");
  EXPECT_EQ(read_manifest(*mixed, "step-00000004").state_digest().hex(),
            read_manifest(*storage, "step-00000004").state_digest().hex());
  EXPECT_TRUE(read_manifest(*mixed, "step-00000004").seeds_alone.has_value());
}

TEST(SeedStrategy, AnotherStateOrPlaceThanTheManifestSaysIsRefusedNamingBoth) {
  const std::shared_ptr<Storage> storage = memory_storage();
  run(seeds("dp1", 2), storage);
  const std::string id = "step-00000002";
  const std::string was = read_manifest(*storage, id).state_digest().hex();
  const std::string wrong(64, 'a');
  testing::reseal(*storage, id, [&](Manifest& manifest) {
    manifest.seeds_alone->state = Digest::from_hex(wrong);
  });
  expect_error(ErrorKind::refused, {"state digest", wrong, was},
               [&] { run(seeds("dp2.zero1"), storage, id); });
  testing::reseal(*storage, id, [&](Manifest& manifest) {
    manifest.seeds_alone->state = Digest::from_hex(was);
    manifest.facts.cursor["ledger"] = wrong;
  });
  expect_error(ErrorKind::refused, {"data cursor", wrong},
               [&] { run(seeds("dp2.zero1"), storage, id); });
}

TEST(SeedStrategy, NativeReductionGoesOnOnItsOwnLayoutAlone) {
  const std::shared_ptr<Storage> storage = memory_storage();
  Config config = seeds("dp2.zero1");
  config.numerics.reduction = "native";
  const Trace uncut = run(config, storage);
  expect_pass(check_resume(uncut, run(config, storage, "step-00000002"), 2));
  config.run.layout = "dp1";
  expect_error(ErrorKind::refused, {"layout", "native reduction"},
               [&] { run(config, storage, "step-00000002"); });
}

TEST(SeedStrategy, AWarmStartIsComputedFromItsWeightsWhileTheyAreThere) {
  const TempFolder folder;
  Config first = seeds("dp1", 2);
  first.checkpoint.strategy = "sharded";
  run(first, posix_storage(folder.file("first"), true));
  Config warm = seeds("dp2.zero1");
  warm.training.warm_start = folder.file("first");
  const std::shared_ptr<Storage> storage = memory_storage();
  const Trace uncut = run(warm, storage);
  // Newer weights in that folder are not those.
  first.training.steps = 4;
  run(first, posix_storage(folder.file("first"), true), "step-00000002");
  expect_pass(check_resume(uncut, run(warm, storage, "step-00000002"), 2));
  std::filesystem::remove_all(folder.file("first"));
  expect_error(ErrorKind::bad_input, {"the weights", "first", "it began with"},
               [&] { run(warm, storage, "step-00000002"); });
}

TEST(SeedStrategy, AMixtureOfOtherWeightsIsRefusedBeforeItTrains) {
  const std::shared_ptr<Storage> storage = memory_storage();
  Config config = seeds("dp2.zero1", 2);
  config.data.samples = DataSection().samples;
  config.data.sources = {{"a", 0.7, "synthetic", "", 40}, {"b", 0.3, "synthetic", "", 7}};
  run(config, storage);
  config.training.steps = 4;
  run(config, storage, "step-00000002");  // of the same weights it goes on
  Config other = config;
  other.data.sources[0].weight = 0.2;
  other.data.remix = true;
  expect_error(ErrorKind::refused, {"data.remix", "seeds alone", "sharded or full"},
               [&] { run(other, storage, "step-00000002"); });
  const std::shared_ptr<Storage> tensors = memory_storage();
  config.checkpoint.strategy = "sharded";
  run(config, tensors);
  expect_error(ErrorKind::refused,
               {"checkpoint.strategy", "other weights behind sample 48", "sharded or full"},
               [&] { run(other, tensors, "step-00000002"); });
}

TEST(SeedStrategy, IsVerifiedByContinuingItToo) {
  const TempFolder folder;
  for (const char* name : {"store", "trace"}) std::filesystem::create_directory(folder.file(name));
  RunRequest request;
  request.config = seeds("dp2.zero1");
  request.config.checkpoint.directory = folder.file("store");
  request.trace.directory = folder.file("trace");
  request.trace.digest = true;
  run_on_threads(request);
  const Continuation what{folder.file("store"), "step-00000002", folder.file("trace"), 2, "dp1"};
  EXPECT_EQ(continue_checkpoint(what).outcome, Outcome::pass);
}

}  // namespace
}  // namespace shardproof
