// ctest: invariant
// Somebody's trace may be damaged in any way: it is one error that names the file, or a verdict
// that is not pass.
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "invariants/foreign_trace.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

class ForeignDamage : public ::testing::Test {
 protected:
  ForeignDamage() { ForeignProgram{}.write(folder_.file("t")); }

  Trace again() const { return read_trace(folder_.file("t")); }
  void append(int rank, const std::string& text) {
    const std::string file = "t/rank_0000" + std::to_string(rank) + ".jsonl";
    folder_.write(file, folder_.read(file) + text);
  }
  static Outcome live(const Trace& trace) { return check_subject_live(trace, 3, {}).outcome; }
  static Outcome cover(const Trace& trace) { return check_subject_cover(trace, {}).outcome; }

  const std::string grad_ = "t/step_000001.grad.rank_00001.safetensors";
  TempFolder folder_;
};

TEST_F(ForeignDamage, WhatIsNotKnownIsKeptAndIgnored) {
  append(1, R"({"kind":"mood","step":1,"deep":{"a":[1,2]}})"
            "\n");
  folder_.write("t/notes.txt", "anything");
  folder_.write("t/step_000001.hidden_state.rank_00000.safetensors", "not looked at");
  const Trace trace = again();
  EXPECT_EQ(trace.ranks[1].others.size(), 1u);
  EXPECT_EQ(live(trace), Outcome::pass);
  EXPECT_EQ(cover(trace), Outcome::pass);
}

TEST_F(ForeignDamage, ATornLastLineIsLegal) {
  append(0, R"({"kind":"at","step":3,"ph)");
  const Trace trace = again();
  EXPECT_TRUE(trace.ranks[0].torn);
  EXPECT_EQ(live(trace), Outcome::pass);
}

TEST_F(ForeignDamage, AMissingRankFileNeverPasses) {
  std::filesystem::remove(folder_.file("t/rank_00001.jsonl"));
  const Trace trace = again();
  EXPECT_EQ(live(trace), Outcome::fail);
  EXPECT_EQ(cover(trace), Outcome::inconclusive);
  EXPECT_EQ(check_subject_bitwise(trace, trace).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_subject_layout({{&trace, {&trace, &trace, &trace}, &trace}}).outcome,
            Outcome::inconclusive);
}

TEST_F(ForeignDamage, TwoRunsInOneFolderFailAndAreCounted) {
  ForeignProgram{}.write(folder_.file("t"));  // appends to the same files
  const Trace trace = again();
  EXPECT_EQ(trace.ranks[0].runs, 2);
  const Verdict verdict = check_subject_live(trace, 3, {});
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("2 run events"), std::string::npos) << verdict.reason;
}

TEST_F(ForeignDamage, ANanIsReadFromItsBitsAndFails) {
  ForeignProgram nan;
  nan.step = [](int, StepRecord& record) {
    if (record.step == 2) record.loss = record.grad_norm = std::nan("");
  };
  const Trace trace = nan.write(folder_.file("nan")), whole = again();
  EXPECT_TRUE(std::isnan(trace.ranks[0].steps[2].loss));
  EXPECT_EQ(live(trace), Outcome::fail);
  EXPECT_EQ(check_subject_bitwise(whole, trace).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_subject_resume(whole, trace, 0).outcome, Outcome::inconclusive);
}

TEST_F(ForeignDamage, ATensorFileThatIsCutOrGarbageIsOneErrorThatNamesIt) {
  const std::string whole = folder_.read(grad_);
  std::string garbage = whole;
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<char>(i * 37 + 11);
  std::string beyond = whole;  // a place that leaves its tensor
  const std::size_t at = beyond.find("saved_offsets\\\":[0,0]");
  ASSERT_NE(at, beyond.npos);
  beyond[at + std::string("saved_offsets\\\":[").size()] = '9';
  for (const std::string& text :
       {std::string(), std::string("{"), whole.substr(0, 40), whole.substr(0, whole.size() - 1),
        whole + "x", garbage, beyond}) {
    folder_.write(grad_, text);
    const Trace trace = again();
    for (const auto& judge : std::vector<std::function<void()>>{
             [&] { check_subject_cover(trace, {}); }, [&] { check_subject_live(trace, 3, {}); },
             [&] { check_subject_bitwise(trace, trace); }}) {
      const Error error = error_of(judge);
      EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
      EXPECT_NE(error.place().find(folder_.file(grad_)), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST_F(ForeignDamage, ATensorFileThatIsGoneIsAHole) {
  ForeignProgram cut;
  cut.cut = ForeignProgram::Cut::rows;
  cut.write(folder_.file("cut"));
  std::filesystem::remove(folder_.file("cut/step_000001.grad.rank_00001.safetensors"));
  EXPECT_EQ(cover(read_trace(folder_.file("cut"))), Outcome::fail);
}

TEST_F(ForeignDamage, RanksThatDisagreeOnShapeOrDtypeFailCover) {
  ForeignProgram wide;
  wide.dtype = Dtype::f64;
  wide.write(folder_.file("wide"));
  std::filesystem::copy(folder_.file("wide/step_000001.grad.rank_00001.safetensors"),
                        folder_.file(grad_), std::filesystem::copy_options::overwrite_existing);
  const Verdict verdict = check_subject_cover(again(), {});
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("different dtypes"), std::string::npos) << verdict.reason;
}

}  // namespace
}  // namespace shardproof
