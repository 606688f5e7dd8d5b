// ctest: unit
// The verbs over traces as a user or a script meets them: exit codes and the one error line.
#include <gtest/gtest.h>

#include "harness/cli/trace_testing.h"
#include "invariants/fake_trace.h"
#include "invariants/foreign_trace.h"

namespace shardproof {
namespace {

class TraceVerbs : public ::testing::Test {
 protected:
  std::string clean(const std::string& name) {
    FakeTrainer().write(folder_.file(name));
    return folder_.file(name);
  }

  // Trouble is told once, on standard error alone, naming the place.
  void expect_trouble(const std::vector<std::string>& arguments, const std::string& place) {
    const Ended ended = trace(arguments);
    EXPECT_EQ(ended.code, 2) << ended.output << ended.errors;
    EXPECT_EQ(ended.output, "");
    EXPECT_TRUE(ended.errors.starts_with("shardproof: ")) << ended.errors;
    EXPECT_EQ(std::count(ended.errors.begin(), ended.errors.end(), '\n'), 1) << ended.errors;
    EXPECT_NE(ended.errors.find(place), std::string::npos) << ended.errors;
  }

  void damage(const std::string& file, const std::function<void(std::string&)>& edit) {
    std::string text = folder_.read(file);
    ASSERT_FALSE(text.empty()) << file;
    edit(text);
    folder_.write(file, text);
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(TraceVerbs, CheckOfACleanTracePasses) {
  const Ended ended = trace({"check", clean("a")});
  EXPECT_EQ(ended.code, 0) << ended.output << ended.errors;
  EXPECT_EQ(ended.errors, "");
  EXPECT_EQ(trace({"check", clean("b"), "--steps", "9"}).code, 1);
}

TEST_F(TraceVerbs, CheckWithoutCapturedTensorsIsUndecided) {
  FakeTrainer fake;
  fake.capture = {};
  fake.write(folder_.file("a"));
  EXPECT_EQ(trace({"check", folder_.file("a")}).code, 3);
}

TEST_F(TraceVerbs, CheckOfWhatIsNoTraceIsTrouble) {
  expect_trouble({"check", folder_.file("none")}, folder_.file("none"));
  folder_.write("file", "text");
  expect_trouble({"check", folder_.file("file")}, folder_.file("file"));
  std::filesystem::create_directory(folder_.file("bare"));
  expect_trouble({"check", folder_.file("bare")}, folder_.file("bare"));
  std::filesystem::create_directory(folder_.file("empty"));
  folder_.write("empty/rank_00000.jsonl", "");
  expect_trouble({"check", folder_.file("empty")}, "an empty trace");
  folder_.write("empty/rank_00000.jsonl", "{\"kind\":\"ru");  // torn before its first event
  expect_trouble({"check", folder_.file("empty")}, "an empty trace");
}

TEST_F(TraceVerbs, ADamagedTraceIsTrouble) {
  const std::string line = clean("a"), tensor = clean("b");
  damage("a/rank_00001.jsonl", [](std::string& text) { text[text.find('\n') + 1] = '<'; });
  expect_trouble({"check", line}, "rank_00001.jsonl:2");
  damage("b/step_000002.moment.rank_00000.safetensors",
         [](std::string& text) { text.resize(text.size() / 2); });
  expect_trouble({"check", tensor}, "step_000002.moment.rank_00000.safetensors");
}

TEST_F(TraceVerbs, DiffHasTheExitCodesOfDiff) {
  const std::string reference = clean("a");
  EXPECT_EQ(trace({"diff", reference, clean("b")}).code, 0);
  FakeTrainer fake;
  fake.step = [](int, StepRecord& record) { record.loss = std::nextafter(record.loss, 9.0); };
  fake.write(folder_.file("other"));
  const Ended differ = trace({"diff", reference, folder_.file("other")});
  EXPECT_EQ(differ.code, 1);
  EXPECT_NE(differ.output.find("step 0"), std::string::npos) << differ.output;
  fake = {};
  fake.digest = false;
  fake.capture = {};
  fake.write(folder_.file("bare"));
  EXPECT_EQ(trace({"diff", reference, folder_.file("bare")}).code, 2) << "nothing to compare";
  expect_trouble({"diff", reference, folder_.file("none")}, folder_.file("none"));
  expect_trouble({"diff", folder_.file("none"), reference}, folder_.file("none"));
}

// Native reduction: by tolerance on another layout, and the output says so; a lost 1/k is seen.
TEST_F(TraceVerbs, DiffOfNativeRunsSaysByWhichRule) {
  const auto native = [&](int world, float factor) {
    FakeTrainer fake;
    fake.world = world;
    fake.run = [=](int, Json& run) {
      run["config"]["numerics"]["reduction"] = "native";
      run["config"]["run"]["layout"] = "dp" + std::to_string(world);
    };
    fake.tensor = [=](int, std::int64_t, const std::string& what, std::vector<float>& values) {
      for (float& each : values) each *= what == "grad" ? factor : 1;
    };
    const std::string name = "native" + std::to_string(next_++);
    fake.write(folder_.file(name));
    return folder_.file(name);
  };
  const std::string one = native(1, 1);
  const Ended near = trace({"diff", one, native(2, 1 + 0x1p-22f)});
  EXPECT_EQ(near.code, 0) << near.output << near.errors;
  EXPECT_NE(near.output.find("judged by the declared tolerance"), std::string::npos) << near.output;
  const Ended lost = trace({"diff", one, native(2, 0.5f)});
  EXPECT_EQ(lost.code, 1) << lost.output;
  EXPECT_NE(lost.output.find("grad w."), std::string::npos) << lost.output;
}

TEST_F(TraceVerbs, CheckOfAnotherProgramsTraceJudgesWhatTheFormatSays) {
  ForeignProgram sgd;
  sgd.moments = {};
  sgd.write(folder_.file("sgd"));
  const Ended ended = trace({"check", folder_.file("sgd")});
  EXPECT_EQ(ended.code, 0) << ended.output << ended.errors;
  EXPECT_EQ(ended.output.find("optimizer "), std::string::npos) << ended.output;
  sgd.step = [](int rank, StepRecord& record) { record.grad_norm *= 1 + rank; };
  sgd.write(folder_.file("local"));
  EXPECT_EQ(trace({"check", folder_.file("local")}).code, 1);
}

// Of a program whose bits depend on the layout.
TEST_F(TraceVerbs, DiffUpToRoundingNeedsFloat64OrThreeBenignRuns) {
  const auto leg = [&](const char* name, Dtype dtype, std::uint32_t seed, double factor = 1) {
    ForeignProgram one;
    one.dtype = dtype;
    one.seed = seed;
    one.noise = dtype == Dtype::f64 ? 0 : 2;
    one.tensor = [=](int, std::int64_t, const std::string& what, const std::string& tensor,
                     std::vector<double>& values) {
      if (what != "grad" || tensor != "a.weight") return;
      for (double& each : values) each *= factor;
    };
    one.write(folder_.file(name));
    return folder_.file(name);
  };
  const std::string ref = leg("ref", Dtype::f32, 1), exact = leg("exact", Dtype::f64, 1),
                    good = leg("good", Dtype::f32, 2), lost = leg("lost", Dtype::f32, 2, 0.5),
                    benign = leg("benign", Dtype::f32, 3);
  EXPECT_EQ(trace({"diff", ref, good}).code, 1) << "bit for bit";
  const Ended near = trace({"diff", ref, good, "--f64", exact});
  EXPECT_EQ(near.code, 0) << near.output << near.errors;
  EXPECT_NE(near.output.find("worst ratio"), std::string::npos) << near.output;
  const Ended far = trace({"diff", ref, lost, "--f64", exact});
  EXPECT_EQ(far.code, 1);
  EXPECT_NE(far.output.find("x the rounding error"), std::string::npos) << far.output;
  EXPECT_NE(far.output.find("index ["), std::string::npos) << far.output;
  const std::vector<std::string> three = {"--benign", benign, "--benign", good, "--benign", ref};
  std::vector<std::string> arguments = {"diff", ref, lost};
  arguments.insert(arguments.end(), three.begin(), three.end());
  EXPECT_EQ(trace(arguments).code, 1);
  arguments[2] = good;
  EXPECT_EQ(trace(arguments).code, 0);
  EXPECT_EQ(trace({"diff", ref, good, "--benign", benign}).code, 2) << "two are missing";
  expect_trouble({"diff", ref, good, "--f64", folder_.file("none")}, folder_.file("none"));
}

TEST_F(TraceVerbs, HelpTellsTheExitCodes) {
  for (const std::string verb : {"check", "diff"}) {
    const Ended help = trace({verb, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.output.find("Examples:\n  shardproof trace " + verb), std::string::npos);
    EXPECT_NE(help.output.find("2 trouble"), std::string::npos) << help.output;
  }
}

}  // namespace
}  // namespace shardproof
