// ctest: invariant timeout=180 processors=2
// The verbs train and resume as a user meets them: output, files, messages, exit codes.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "harness/launcher.h"
#include "harness/world.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"
#include "train/manifest_testing.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

std::string write_config(const TempFolder& folder, const Config& config) {
  std::ofstream(folder.file("case.toml")) << to_toml(config);
  return folder.file("case.toml");
}

ChildResult shardproof(std::vector<std::string> arguments,
                       const std::map<std::string, std::string>& environment = {}) {
  arguments.insert(arguments.begin(), SHARDPROOF_COMMAND);
  return run_child(arguments, seconds(60), environment);
}

TEST(TrainCommand, PrintsAndSavesTheResolvedConfigAndALineAStep) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp2", 3));
  const auto result =
      shardproof({"train", file, "--layout", "dp=2,zero=1", "--set", "training.clip=0.5", "--trace",
                  folder.file("trace"), "--metrics", folder.file("metrics.jsonl")});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("step    2/3  loss "), std::string::npos) << result.output;
  const Config saved = load_config(folder.file("trace") + "/config.toml");
  EXPECT_EQ(saved.run.layout, "dp2.zero1");
  EXPECT_EQ(saved.training.clip, 0.5);
  EXPECT_NE(result.output.find(to_toml(saved)), std::string::npos) << "printed as it was saved";
  EXPECT_EQ(check_live(read_trace(folder.file("trace")), 3).outcome, Outcome::pass);
  std::ifstream metrics(folder.file("metrics.jsonl"));
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(metrics), {}, '\n'), 3);
}

TEST(TrainCommand, AFaultInTheEnvironmentIsRefusedByVerbsThatWouldIgnoreIt) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"accept"}, {"layouts", "dp2"}, {"replay", "run.layout=dp2"}}) {
    const auto result = shardproof(arguments, {{"SHARDPROOF_FAULT", "1:1:backward:kill"}});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_TRUE(result.output.starts_with("shardproof: bad_input: SHARDPROOF_FAULT: found '1:1:"))
        << result.output;
    EXPECT_NE(result.output.find(arguments[0] + " makes runs of its own"), std::string::npos);
  }
}

TEST(TrainCommand, PrintConfigRunsNothing) {
  const auto result = shardproof({"train", "--set", "model.width=64", "--print-config"});
  EXPECT_EQ(result.exit_code, 0);
  const Config config = parse_toml(result.output, "output");
  EXPECT_EQ(config.model.width, 64);
}

TEST(TrainCommand, BadInputIsNamedWithExitCodeTwo) {
  const TempFolder folder;
  std::ofstream(folder.file("bad.toml")) << "[training]\nsteps = 5\nglobal_batch = 15\n";
  const struct {
    std::vector<std::string> arguments;
    std::string says;
  } cases[] = {
      {{"train", "--no-such-option"}, "--no-such-option"},
      {{"train", "--hostfile", "/no/hosts"}, "expected --backend mpi"},
      {{"train", "--hostfile", "/no/hosts", "--backend", "mpi"}, "/no/hosts: expected a hostfile"},
      {{"train", "/no/such/file.toml"}, "/no/such/file.toml"},
      {{"train", "--set", "training.step=3"}, "training.step"},
      {{"train", "--layout", "dq4"}, "dq4"},
      {{"train", "--layout", "dp2.ep2"}, "--layout dp2.ep2: run.layout: "},
      {{"train", "--layout", "dp2.ep2"}, "not supported yet"},
      {{"train", "--layout", "tp4"}, "expected tp 1 to 2"},
      {{"train", folder.file("bad.toml")},
       "bad.toml:3: training.global_batch: found global_batch 15"},
      {{"train", "--set", "data.kind=text", "--set", "data.path=/no/text", "--set",
        "model.vocabulary=256"},
       "/no/text"},
      {{"train", "--set", "run.fault=0:0:forward:kill", "--trace", folder.file("t")},
       "run.backend=mpi"},
      {{"resume", folder.file("none")}, folder.file("none")},
      {{"train", "--trace", folder.file("t"), "--trace-tensors", "1,x"},
       "--trace-tensors: \"1,x\""},
      {{"train", "--trace", folder.file("t"), "--trace-match", "("}, "--trace-match: \"(\""},
      {{"train", "--trace-tensors", "all"}, "expected --trace DIR"},
      {{"train", "--checkpoint", ""}, "--checkpoint: found an empty text"},
      {{"train", "--steps", "0"}, "found 0; expected an integer from 1 to 2147483647"},
      {{"train", "--layout", "dp99999", "--set", "training.global_batch=99999", "--set",
        "training.micro_batch=1"},
       "dp99999 needs 99999 ranks; expected at most 512"},
  };
  for (const auto& bad : cases) {
    const auto result = shardproof(bad.arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(bad.says), std::string::npos) << bad.says << ": " << result.output;
  }
  const auto result = shardproof({"train", "--steps", "1"}, {{"SHARDPROOF_FAULT", "nonsense"}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("SHARDPROOF_FAULT"), std::string::npos) << result.output;
}

TEST(TrainCommand, ATraceWithItsTensorsPassesEveryCheck) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp2.zero1", 4));
  const auto trace = [&](const std::string& name, std::vector<std::string> options) {
    options.insert(options.begin(), {"train", file, "--trace", folder.file(name)});
    const auto result = shardproof(options);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return shardproof({"trace", "check", folder.file(name)});
  };
  const auto all = trace("all", {"--trace-tensors", "all"});
  EXPECT_EQ(all.exit_code, 0) << all.output;
  EXPECT_EQ(trace("digests", {}).exit_code, 3) << "AdamW cannot be recomputed from digests";
  EXPECT_EQ(trace("bytes", {"--trace-tensors", "all", "--no-trace-digest"}).exit_code, 3)
      << "replicas are compared by digest";
  EXPECT_TRUE(read_trace(folder.file("bytes")).ranks[0].tensors.empty());
  trace("some", {"--trace-tensors=-1,2", "--trace-match", "ln_f"});
  const Trace some = read_trace(folder.file("some"));
  std::set<std::int64_t> steps;
  for (const TensorFileRef& file : some.files) steps.insert(file.step);
  EXPECT_EQ(steps, (std::set<std::int64_t>{-1, 2}));
  ASSERT_FALSE(some.ranks[0].tensors.empty());
  for (const TensorRecord& tensor : some.ranks[0].tensors) {
    EXPECT_TRUE(tensor.place.name.starts_with("ln_f")) << tensor.place.name;
  }
}

TEST(TrainCommand, AUsedTraceFolderIsRefused) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp1", 1));
  const std::vector<std::string> command{"train", file, "--trace", folder.file("trace")};
  EXPECT_EQ(shardproof(command).exit_code, 0);
  const auto again = shardproof(command);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.output.find("rank_00000.jsonl"), std::string::npos) << again.output;
}

TEST(TrainCommand, ADamagedNewestCheckpointIsRefusedOrPassedOverWhenAsked) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp2.zero1", 6));
  const std::string store = folder.file("store");
  ASSERT_EQ(shardproof({"train", file, "--checkpoint", store, "--set", "checkpoint.every=2",
                        "--set", "checkpoint.last=false", "--trace", folder.file("uncut")})
                .exit_code,
            0);
  const auto storage = posix_storage(store, false);
  const std::string shard = read_manifest(*storage, "step-00000006").files[0].file;
  std::filesystem::resize_file(std::filesystem::path(store) / shard, 100);
  const auto strict = shardproof({"resume", store, "--steps", "8"});
  EXPECT_EQ(strict.exit_code, 1) << strict.output;
  EXPECT_NE(strict.output.find(shard), std::string::npos) << strict.output;
  const auto fallen = shardproof({"resume", store, "--fallback", "--trace", folder.file("rest")});
  EXPECT_EQ(fallen.exit_code, 0) << fallen.output;
  EXPECT_NE(fallen.output.find("checkpoint step-00000006 is damaged: " + shard), std::string::npos)
      << fallen.output;
  const Verdict verdict =
      check_resume(read_trace(folder.file("uncut")), read_trace(folder.file("rest")), 4);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
}

TEST(TrainCommand, ResumeContinuesFromTheManifestAlone) {
  const TempFolder folder;
  Config config = small_case("dp2.zero1", 6);
  const std::string file = write_config(folder, config);
  const std::string store = folder.file("store");
  ASSERT_EQ(shardproof({"train", file, "--checkpoint", store, "--set", "checkpoint.every=3",
                        "--trace", folder.file("uncut")})
                .exit_code,
            0);
  const auto resumed =
      shardproof({"resume", store, "step-00000003", "--trace", folder.file("resumed")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  const Verdict verdict =
      check_resume(read_trace(folder.file("uncut")), read_trace(folder.file("resumed")), 3);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;

  const auto done = shardproof({"resume", store});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_NE(done.output.find("expected more steps"), std::string::npos) << done.output;
  testing::reseal(*posix_storage(store, false), "step-00000003",
                  [](Manifest& manifest) { manifest.facts.step = 2147483647; });
  const auto sealed = shardproof({"resume", store, "step-00000003"});
  EXPECT_EQ(sealed.exit_code, 2);
  EXPECT_NE(sealed.output.find("facts.step against facts.config.training.steps: expected 0 to 6, "
                               "found 2147483647"),
            std::string::npos)
      << sealed.output;
  testing::reseal(*posix_storage(store, false), "step-00000003",
                  [](Manifest& manifest) { manifest.facts.step = 3; });
  const auto other = shardproof({"resume", store, "step-00000003", "--set", "optimizer.lr=0.5"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.output.find("optimizer.lr"), std::string::npos) << other.output;
}

// Trains until the first step is seen, then interrupts; alone the run would go on for minutes.
ChildResult interrupted(const TempFolder& folder, const std::string& options) {
  const std::string file = write_config(folder, small_case("dp2.zero1", 100000));
  const std::string script = std::string(SHARDPROOF_COMMAND) + " train " + file + " --checkpoint " +
                             folder.file("store") + options + " > " + folder.file("out") +
                             " & p=$!; until grep -q '^step  ' " + folder.file("out") +
                             "; do sleep 0.02; done; kill -INT $p; wait $p; exit $?";
  return run_child({"sh", "-c", script}, seconds(60));
}

TEST(TrainCommand, CtrlCEndsAfterTheStepWithAWholeCheckpoint) {
  const TempFolder folder;
  const auto result = interrupted(folder, "");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << result.output;
  const auto verify = shardproof({"checkpoint", "verify", folder.file("store")});
  EXPECT_EQ(verify.exit_code, 0) << verify.output;
}

TEST(TrainCommand, CtrlCEndsMpiRanksAndNothingIsHalfWritten) {
  const TempFolder folder;
  const auto result = interrupted(folder, " --backend mpi --set checkpoint.every=1");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << result.output;
  const auto verify = shardproof({"checkpoint", "verify", folder.file("store")});
  EXPECT_EQ(verify.exit_code, 0) << verify.output;
}

TEST(TrainCommand, PortableNumericsAreInForceInAProcessOfTheirOwn) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp2.zero1", 2));
  const auto result = shardproof(
      {"train", file, "--set", "numerics.portable=true", "--trace", folder.file("trace")});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const Trace trace = read_trace(folder.file("trace"));
  EXPECT_NE(trace.ranks.at(0).run.at("kernels").get<std::string>().find("aten DEFAULT"),
            std::string::npos);
}

TEST(TrainCommand, RanksStartedByTheUsersOwnMpirunAreARun) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp3.zero1", 3));
  ASSERT_EQ(shardproof({"train", file, "--trace", folder.file("threads")}).exit_code, 0);
  const std::map<std::string, std::string> as_root{{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const std::vector<std::string> mpirun{find_mpirun(),         "-n",        "3",    "--map-by",
                                        ":OVERSUBSCRIBE",      "--bind-to", "none", "--mca",
                                        "mpi_yield_when_idle", "1"};
  std::vector<std::string> command = mpirun;
  for (const std::string& word : {std::string(SHARDPROOF_COMMAND), std::string("train"), file,
                                  std::string("--trace"), folder.file("mpi")}) {
    command.push_back(word);
  }
  const auto result = run_child(command, seconds(60), as_root);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("died"), std::string::npos) << result.output;
  const Verdict verdict =
      check_layout(read_trace(folder.file("threads")), read_trace(folder.file("mpi")));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;

  command = mpirun;
  for (const std::string& word : {std::string(SHARDPROOF_COMMAND), std::string("train"), file,
                                  std::string("--layout"), std::string("dp2")}) {
    command.push_back(word);
  }
  const auto wrong = run_child(command, seconds(60), as_root);
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output;
  EXPECT_NE(wrong.output.find("dp2 needs 2 ranks; MPI started 3"), std::string::npos)
      << wrong.output;
}

TEST(TrainCommand, AKilledMpiRankIsNamedWithItsPlace) {
  const TempFolder folder;
  const std::string file = write_config(folder, small_case("dp3.zero1", 50));
  const auto result = shardproof({"train", file, "--backend", "mpi", "--trace",
                                  folder.file("trace"), "--set", "run.fault=1:3:reduced:kill"});
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_NE(result.output.find("step 3, reduced: rank 1 died"), std::string::npos) << result.output;
  const Trace trace = read_trace(folder.file("trace"));
  EXPECT_EQ(trace.ranks.at(1).last_at->phase, "reduced");
  for (const RankTrace& rank : trace.ranks) EXPECT_FALSE(rank.ended.has_value());
}

TEST(TrainCommand, AnErrorOfAnMpiRankIsTheRunsError) {
  const TempFolder folder;
  Config config = small_case("dp2.zero1", 2);
  config.run.backend = "mpi";
  config.data.kind = "text";
  config.data.path = folder.file("gone.txt");
  config.model.vocabulary = 256;
  const auto result = shardproof({"train", write_config(folder, config)});
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.output.find(folder.file("gone.txt")), std::string::npos) << result.output;
}

}  // namespace
}  // namespace shardproof
