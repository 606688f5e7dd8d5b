// ctest: invariant timeout=180 processors=2
// Runs that meet in a checkpoint folder, and a resume from another working folder: by the command.
#include "harness/checkpoint_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/child.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() {
    folder_.write("case.toml", to_toml(small_case("dp2.zero1", 2)));
    std::filesystem::create_directory(folder_.file("a"));
    std::filesystem::create_directory(folder_.file("b"));
  }
  // A line for the shell, in the test's folder.
  ChildResult run(const std::string& line) const {
    const std::string at = "cd '" + folder_.path() + "' && ";
    return run_child({"/bin/sh", "-c", at + line}, std::chrono::seconds(60),
                     {{"CMD", SHARDPROOF_COMMAND}});
  }
  ChildResult train(const std::string& arguments) const {
    return run("$CMD train case.toml --checkpoint ckpt " + arguments);
  }
  // Names and times of everything.
  std::map<std::string, std::filesystem::file_time_type> contents() const {
    std::map<std::string, std::filesystem::file_time_type> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
      out[entry.path().string()] = entry.last_write_time();
    }
    return out;
  }
  void expect_refused(const std::string& arguments, const std::vector<std::string>& parts) const {
    const auto before = contents();
    const ChildResult child = train(arguments);
    EXPECT_EQ(child.exit_code, 2) << child.output;
    for (const std::string& part : parts) {
      EXPECT_NE(child.output.find(part), std::string::npos) << child.output << " lacks " << part;
    }
    EXPECT_EQ(child.output.find("loss"), std::string::npos) << "no step was made";
    EXPECT_EQ(contents(), before) << "nothing is touched";
  }
  Config config(const std::string& layout) const {
    Config out = small_case(layout, 2);
    out.checkpoint.directory = folder_.file("ckpt");
    return out;
  }

  const TempFolder folder_;
};

TEST_F(CheckpointFolder, TakesTheCheckpointsOfOneCase) {
  ASSERT_EQ(train("").exit_code, 0);
  expect_refused("--set training.seed=2 --steps 1 --trace t --metrics m",
                 {"conflict: checkpoint folder ckpt: holds step-00000002 of another run ('",
                  "training.global_batch=24", "training.seed is 1 there and 2 here",
                  "expected another folder, or shardproof resume"});
  const ChildResult again = train("--steps 3 --set run.layout=dp3");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  const ChildResult resumed = run("$CMD resume ckpt step-00000002 --steps 4");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
}

TEST_F(CheckpointFolder, IsNotSharedByNativeRunsOnTwoLayouts) {
  ASSERT_EQ(train("--set numerics.reduction=native").exit_code, 0);
  Config native = config("dp2.zero1");
  native.numerics.reduction = "native";
  EXPECT_NO_THROW(refuse_other_run(native));
  native.run.layout = "dp3";
  expect_error(ErrorKind::conflict, {"ckpt", "native reduction has other bits"},
               [&] { refuse_other_run(native); });
  expect_error(ErrorKind::conflict, {"numerics.reduction"},
               [&] { refuse_other_run(config("dp2.zero1")); });
}

TEST_F(CheckpointFolder, ThatIsEmptyMissingOrDamagedIsNoSurprise) {
  EXPECT_NO_THROW(refuse_other_run(config("dp1")));
  std::filesystem::create_directory(folder_.file("ckpt"));
  EXPECT_NO_THROW(refuse_other_run(config("dp1")));
  folder_.write("ckpt/step-00000002.manifest.json", "{");
  expect_error(ErrorKind::conflict, {"ckpt", "step-00000002, which cannot be read"},
               [&] { refuse_other_run(config("dp1")); });
}

TEST_F(CheckpointFolder, AResumeFromElsewhereFindsTheDataByARelativePath) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 26);
  folder_.write("a/book.txt", text);
  const std::string data =
      "--checkpoint ../ckpt --set data.kind=text --set model.vocabulary=256 --set data.path=";
  const ChildResult first = run("cd a && $CMD train ../case.toml " + data + "book.txt");
  ASSERT_EQ(first.exit_code, 0) << first.output;
  const ChildResult resumed = run("cd b && $CMD resume ../ckpt --steps 3");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  // A proof's checkpoints, too.
  const ChildResult proven =
      run("cd a && $CMD replay --out ../proof '" +
          std::string("data.kind=text data.path=book.txt training.steps=4 ") +
          "model.vocabulary=256 model.layers=1 run.layout=dp1'");
  ASSERT_EQ(proven.exit_code, 0) << proven.output;
  const ChildResult further = run("cd b && $CMD resume ../proof/checkpoints/replay/main --steps 5");
  EXPECT_EQ(further.exit_code, 0) << further.output;
  // The Case is its data, wherever they lie and from wherever it was started.
  const ChildResult moved = run("mv a/book.txt b/moved.txt && $CMD train case.toml " +
                                std::string("--checkpoint ckpt --set data.kind=text ") +
                                "--set model.vocabulary=256 --set data.path=b/moved.txt");
  EXPECT_EQ(moved.exit_code, 0) << moved.output;
  folder_.write("b/moved.txt", text.substr(1));
  expect_refused("--set data.kind=text --set model.vocabulary=256 --set data.path=b/moved.txt",
                 {"the data are others"});
}

}  // namespace
}  // namespace shardproof
