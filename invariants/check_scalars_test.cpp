// ctest: unit
// What the checks say of imported scalars: what is not there is equal to nothing, and no check
// passes where tensors were not seen.
#include <gtest/gtest.h>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"
#include "trace/import/event_file.h"
#include "trace/import/import_scalars.h"

namespace shardproof {
namespace {

struct Line {
  int step = 1;
  std::string loss = "8.0277";
  std::string norm = "1.4604";  // empty: none
};

class Imports : public ::testing::Test {
 protected:
  Trace titan(const std::vector<Line>& lines, bool completed = true) {
    std::string text;
    for (const Line& line : lines) {
      text += "step: " + std::to_string(line.step) + "  loss:  " + line.loss;
      text += line.norm.empty() ? "  tps: 3\n" : "  grad_norm:  " + line.norm + "  tps: 3\n";
    }
    if (completed) text += "Training completed\n";
    return import(ScalarFormat::torchtitan, text);
  }
  Trace golden(const std::string& values) {
    return import(ScalarFormat::megatron,
                  R"({"lm loss": {"end_step": 9, "values": {)" + values + "}}}");
  }
  Trace import(ScalarFormat format, const std::string& text) {
    const std::string name = std::to_string(next_++);
    folder_.write(name, text);
    import_scalars(format, folder_.file(name), folder_.file("trace" + name));
    return read_trace(folder_.file("trace" + name));
  }

  TempFolder folder_;
  int next_ = 0;
};

bool has_note(const Verdict& verdict, const std::string& words) {
  return std::any_of(verdict.notes.begin(), verdict.notes.end(),
                     [&](const std::string& note) { return note.find(words) != note.npos; });
}

void expect_undecided(const Verdict& verdict, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.check << ": " << verdict.reason;
  for (const std::string_view part : parts) {
    EXPECT_NE(verdict.reason.find(part), std::string::npos)
        << "\"" << verdict.reason << "\" lacks \"" << part << "\"";
  }
}

const std::vector<Line> two = {{1, "8.0277", "1.4604"}, {2, "7.5000", "1.4000"}};

TEST_F(Imports, WithTheSameScalarsAreTheSameInScalarsAlone) {
  const Verdict verdict = check_scalars(titan(two), titan(two));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_TRUE(has_note(verdict, "tensors: not verified (scalars imported from torchtitan)"));
  EXPECT_TRUE(has_note(verdict, "equal: loss (2 steps), grad_norm (2 steps)"));
  EXPECT_TRUE(has_note(verdict, "on neither side: lr"));
  EXPECT_TRUE(has_note(verdict, "loss 4 decimals"));
  for (const Verdict& whole :
       {check_layout(titan(two), titan(two)), check_repeat(titan(two), titan(two)),
        check_resume(titan(two), titan(two), 0)}) {
    expect_undecided(whole, {"tensors: not verified (scalars imported from torchtitan)",
                             "not traced at step 0: lr, tokens, samples, skipped"});
  }
}

TEST_F(Imports, ThatDifferAreFailedByStepAndScalar) {
  std::vector<Line> other = two;
  other[1].norm = "1.4001";
  for (const auto check : {check_scalars, check_layout, check_repeat}) {
    const Verdict verdict = check(titan(two), titan(other));
    EXPECT_EQ(verdict.outcome, Outcome::fail) << verdict.check;
    ASSERT_TRUE(verdict.difference);
    EXPECT_EQ(verdict.difference->step, 1);
    EXPECT_EQ(verdict.difference->phase, "grad_norm");
    EXPECT_EQ(verdict.difference->left, bits_hex(1.4));
    EXPECT_TRUE(has_note(verdict, "tensors: not verified"));
  }
  other = two;
  other[0].loss = "8.0278";
  EXPECT_EQ(check_scalars(titan(two), titan(other)).difference->phase, "loss");
  other.pop_back();
  other[0].loss = two[0].loss;
  const Verdict shorter = check_scalars(titan(two), titan(other));
  EXPECT_EQ(shorter.outcome, Outcome::fail);
  EXPECT_EQ(shorter.difference->print(), "step 1, step, rank 0: expected done, found missing");
}

// A scalar that one side lacks, at one step even, is equal to nothing.
TEST_F(Imports, WithAScalarOnOneSideAreUndecided) {
  std::vector<Line> bare = two;
  bare[1].norm = "";
  expect_undecided(check_scalars(titan(two), titan(bare)), {"only one side has grad_norm"});
  expect_undecided(check_scalars(titan(bare), titan(two)), {"only one side has grad_norm"});
  expect_undecided(check_layout(titan(two), titan(bare)),
                   {"not verified", "step 1: ", "grad_norm"});
  bare[0].norm = "";
  EXPECT_EQ(check_scalars(titan(bare), titan(bare)).outcome, Outcome::pass);
  bare[0].loss = "9.0000";
  EXPECT_EQ(check_scalars(titan(two), titan(bare)).outcome, Outcome::fail) << "a difference counts";
}

TEST_F(Imports, OfOtherDigitsAreUndecided) {
  std::vector<Line> five = two;
  five[0].loss += "0";
  five[1].loss += "0";
  expect_undecided(check_scalars(titan(two), titan(five)),
                   {"loss has 4 decimals on the expected side and 5 decimals on the judged side"});
  FakeTrainer fake;
  fake.world = 1;
  const Trace ours = fake.write(folder_.file("ours"));
  expect_undecided(check_scalars(ours, titan(two)), {"loss has all bits on the expected side"});
  expect_undecided(check_layout(titan(two), ours), {"all bits on the judged side"});
  write_events(titan(two), folder_.file("tfevents"));
  import_scalars(ScalarFormat::tensorboard, folder_.file("tfevents"), folder_.file("board"));
  const Trace board = read_trace(folder_.file("board"));
  expect_undecided(check_scalars(titan(two), board), {"float32"});
  EXPECT_EQ(check_scalars(board, board).outcome, Outcome::pass);
}

TEST_F(Imports, AreUndecidedWhereTheRunDidNotEnd) {
  expect_undecided(check_scalars(titan(two), titan(two, false)), {"rank 0", "never ended"});
  const Trace open = golden(R"("1": 10.5, "2": 10.25)");
  EXPECT_EQ(check_scalars(open, open).outcome, Outcome::pass) << "that source tells no end";
  expect_undecided(check_scalars(titan({{1, "nan", "1.0"}, {2, "7.0", "1.0"}}), titan(two)),
                   {"no finite loss"});
}

TEST_F(Imports, NeverPassTheChecksOfOneTrace) {
  const Trace clean = titan(two);
  expect_undecided(check_live(clean, 2), {"tensors: not verified", "torchtitan"});
  expect_undecided(check_live(clean, 20), {"2 of 20 steps were logged"});
  expect_undecided(check_live(titan({{1}, {10}}), 10), {"the loss has the same digits"});
  expect_undecided(check_live(golden(R"("1": 10.5, "2": 10.25)"), 2),
                   {"whether the run ended is not known", "no grad_norm at step 0"});
  EXPECT_EQ(check_live(titan(two, false), 2).outcome, Outcome::fail);
  EXPECT_EQ(check_live(titan({{1, "nan", "1.0"}, {2}}), 2).outcome, Outcome::fail);
  EXPECT_EQ(check_live(titan({{1, "8.0", "0.0000"}, {2}}), 2).outcome, Outcome::fail);
  for (const Verdict& verdict :
       {check_cover(clean), check_replicas(clean), check_data(clean), check_optimizer(clean),
        check_optimizer_bytes(clean), check_overfit(clean, 64, 1)}) {
    expect_undecided(verdict, {});
  }
}

// The program's own trace, but for what its steps say to lack.
Trace lacking(const TempFolder& folder, const std::string& name, std::vector<std::string> keys) {
  FakeTrainer fake;
  fake.step = [&](int, StepRecord& record) {
    if (record.step == 2) record.extra["missing"] = keys;
  };
  return fake.write(folder.file(name));
}

TEST(Lacking, IsEqualToNothing) {
  const TempFolder folder;
  const Trace whole = FakeTrainer().write(folder.file("whole"));
  const Trace loss = lacking(folder, "loss", {"loss"}),
              norm = lacking(folder, "norm", {"grad_norm"}), lr = lacking(folder, "lr", {"lr"}),
              ids = lacking(folder, "ids", {"samples"});
  for (const Trace* each : {&loss, &norm, &lr, &ids}) {
    expect_undecided(check_repeat(whole, *each), {"not traced at step 2"});
    expect_undecided(check_repeat(*each, *each), {"not traced at step 2"});
    EXPECT_NE(trajectory_digest(whole), trajectory_digest(*each));
  }
  expect_undecided(check_live(loss, 4), {"no loss at step 2"});
  expect_undecided(check_live(norm, 4), {"no grad_norm at step 2"});
  EXPECT_EQ(check_live(lr, 4).outcome, Outcome::pass);
  expect_undecided(check_loss_falls(loss, 1, 1), {"no loss at step 2"});
  expect_undecided(check_loss_falls_by_quarters(loss, 1), {"no loss at step 2"});
  expect_undecided(check_overfit(loss, 64, 1), {"no loss at step 2"});
  expect_undecided(check_optimizer(norm), {"step 2 has no gradient norm or learning rate"});
  expect_undecided(check_optimizer(lr), {"step 2 has no gradient norm or learning rate"});
  expect_undecided(check_data(ids), {"no sample id at step 2"});
}

TEST(Lacking, LeavesDeclaredTolerancesUndecided) {
  const TempFolder folder;
  const auto native = [&](const std::string& name, const std::vector<std::string>& keys) {
    FakeTrainer fake;
    fake.world = name == "one" ? 1 : 2;
    fake.run = [&](int, Json& run) {
      run["config"]["numerics"]["reduction"] = "native";
      run["config"]["run"]["layout"] = name;
    };
    fake.step = [&](int, StepRecord& record) {
      if (!keys.empty()) record.extra["missing"] = keys;
    };
    return fake.write(folder.file(name));
  };
  const Trace one = native("one", {});
  EXPECT_EQ(check_layout(one, native("two", {})).outcome, Outcome::pass);
  expect_undecided(check_layout(one, native("norm", {"grad_norm"})), {"no finite loss and norm"});
  expect_undecided(check_layout(one, native("loss", {"loss"})), {"no finite loss and norm"});
}

TEST(Scalars, OfTracesAreComparedBitForBit) {
  const TempFolder folder;
  const Trace whole = FakeTrainer().write(folder.file("whole"));
  const Verdict same = check_scalars(whole, FakeTrainer().write(folder.file("again")));
  EXPECT_EQ(same.outcome, Outcome::pass);
  EXPECT_TRUE(has_note(same, "tensors: not verified (scalars alone)"));
  FakeTrainer fake;
  fake.step = [](int rank, StepRecord& record) {
    if (rank == 1 && record.step == 3) record.lr = std::nextafter(record.lr, 1.0);
  };
  const Verdict other = check_scalars(whole, fake.write(folder.file("other")));
  EXPECT_EQ(other.outcome, Outcome::fail);
  EXPECT_EQ(other.difference->rank, 1);
  EXPECT_EQ(other.difference->phase, "lr");
  expect_undecided(check_scalars(Trace(), Trace()), {"no step"});
  expect_undecided(check_scalars(lacking(folder, "a", {"loss"}), lacking(folder, "b", {"lr"})),
                   {"only one side has loss, lr"});
}

}  // namespace
}  // namespace shardproof
