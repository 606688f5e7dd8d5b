// ctest: unit
#include "trace/reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

#include "base/digest.h"
#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

// A trace as a foreign program would write it.
const std::string run_line = R"({"kind":"run","schema":1,"rank":0,"world":2,"pid":71,"code":"c"})"
                             "\n";

std::string step_line(int step) {
  return R"({"kind":"step","step":)" + std::to_string(step) +
         R"(,"loss":4.5,"grad_norm":1,"lr":0.1,"tokens":4,"samples":[1]})"
         "\n";
}

Trace read_text(const std::string& text) {
  TempFolder folder;
  folder.write("rank_00000.jsonl", text);
  return read_trace(folder.path());
}

Error read_error(const std::string& text) {
  return error_of([&] { read_text(text); });
}

TEST(ReadTrace, SortsEventsByKind) {
  const Trace trace =
      read_text(run_line + R"({"kind":"at","step":0,"phase":"forward"})" + "\n" +
                R"({"kind":"at","step":0,"phase":"my_phase","since":3})" + "\n" + step_line(0) +
                R"({"kind":"checkpoint","step":1,"path":"p","state":"begun"})" + "\n" +
                R"({"kind":"checkpoint","step":1,"path":"p","state":"done"})" + "\n" +
                R"({"kind":"comm","step":0,"op":"all_reduce"})" + "\n" + R"({"kind":"dream"})" +
                "\n" + R"({"kind":"tensor","step":0,"what":"grad","name":"w","global_shape":[2],)" +
                R"("box":{"offsets":[0],"shape":[2]},"dtype":"F32","norm":1,"sha256":")" +
                sha256("").hex() + "\"}\n" + R"({"kind":"end","step":1})" + "\n");
  ASSERT_EQ(trace.ranks.size(), 1u);
  const RankTrace& rank = trace.ranks[0];
  EXPECT_EQ(rank.rank, 0);
  EXPECT_EQ(rank.world, 2);
  EXPECT_EQ(trace.world(), 2);
  EXPECT_EQ(rank.run["code"], "c");
  EXPECT_EQ(rank.runs, 1);
  EXPECT_EQ(rank.last_at->phase, "my_phase");
  ASSERT_EQ(rank.steps.size(), 1u);
  EXPECT_EQ(rank.steps[0].loss, 4.5);
  ASSERT_EQ(rank.checkpoints.size(), 2u);
  EXPECT_FALSE(rank.checkpoints[0].done);
  EXPECT_TRUE(rank.checkpoints[1].done);
  EXPECT_EQ(rank.tensors.size(), 1u);
  ASSERT_EQ(rank.others.size(), 2u);
  EXPECT_EQ(rank.others[0]["op"], "all_reduce");
  EXPECT_EQ(rank.ended, 1);
  EXPECT_FALSE(rank.torn);
  EXPECT_TRUE(trace.harness.empty());
}

TEST(ReadTrace, RanksAreSortedAndMissingOnesAbsent) {
  TempFolder folder;
  for (const int rank : {10, 2, 0}) {
    folder.write("rank_" + std::to_string(rank) + ".jsonl",
                 R"({"kind":"run","schema":1,"rank":)" + std::to_string(rank) + R"(,"world":11})" +
                     "\n" + step_line(rank));
  }
  folder.write("harness.jsonl", "{\"kind\":\"start\"}\n{\"kind\":\"ex");
  folder.write("notes.txt", "ignored");
  folder.write("rank_x.jsonl", "ignored");
  for (const char* name :
       {"step_000002.param.rank_00001.safetensors", "step_000002.grad.rank_00000.safetensors",
        "step_-00001.param.rank_00000.safetensors"}) {
    folder.write(name, "not read yet");
  }
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.ranks.size(), 3u);
  EXPECT_EQ(trace.ranks[1].rank, 2);
  EXPECT_EQ(trace.ranks[2].rank, 10);
  EXPECT_EQ(trace.step_numbers(), (std::vector<std::int64_t>{0, 2, 10}));
  ASSERT_EQ(trace.harness.size(), 1u);
  ASSERT_EQ(trace.files.size(), 3u);
  EXPECT_EQ(trace.files[0].step, -1);
  EXPECT_EQ(trace.files[1].what, "grad");
  EXPECT_EQ(trace.files[2].rank, 1);
  EXPECT_EQ(trace.files[2].path, folder.file("step_000002.param.rank_00001.safetensors"));
}

// Cut anywhere, a trace holds the events of its whole lines and nothing else.
RC_GTEST_PROP(ReadTrace, ATornLastLineIsLegal, ()) {
  const std::string text = run_line + step_line(0) + step_line(1) + step_line(2);
  const auto size = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
  const std::string cut = text.substr(0, size);
  const RankTrace rank = read_text(cut).ranks[0];
  // A line that lacks its newline alone is whole.
  const bool complete = cut.empty() || cut.back() == '\n' || cut.back() == '}';
  RC_ASSERT(rank.torn == !complete);
  const auto lines = std::count(cut.begin(), cut.end(), '}');
  RC_ASSERT(rank.runs == (lines > 0 ? 1 : 0));
  RC_ASSERT(static_cast<int>(rank.steps.size()) == std::max<int>(0, static_cast<int>(lines) - 1));
}

TEST(ReadTrace, AnyOtherBadLineNamesFileAndLine) {
  const std::vector<std::string> bad = {"{\"kind\":\"at\",\"st\n",
                                        "\n",
                                        "[]\n",
                                        "{}\n",
                                        "{\"kind\":3}\n",
                                        "{\"kind\":\"at\"}\n",
                                        "{\"kind\":\"end\",\"kind\":\"end\",\"step\":1}\n"};
  for (const std::string& line : bad) {
    for (const std::string& rest : {std::string(), step_line(1)}) {
      const Error error = read_error(run_line + step_line(0) + line + rest);
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      EXPECT_NE(error.place().find("/rank_00000.jsonl:3"), std::string::npos) << error.what();
    }
  }
  EXPECT_NE(read_error("{\"kind\":\"at\",\"step\":1}").detail().find("\"phase\" is missing"),
            std::string::npos)
      << "a whole event is judged though its newline is missing";
}

TEST(ReadTrace, EveryMissingKeyIsNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"kind":"run","rank":0,"world":2})", "\"schema\" is missing"},
      {R"({"kind":"run","schema":1,"world":2})", "\"rank\" is missing"},
      {R"({"kind":"run","schema":1,"rank":0})", "\"world\" is missing"},
      {R"({"kind":"at","phase":"forward"})", "\"step\" is missing"},
      {R"({"kind":"end"})", "\"step\" is missing"},
      {R"({"kind":"checkpoint","step":1,"path":"p"})", "\"state\" is missing"},
      {R"({"kind":"checkpoint","step":1,"state":"done"})", "\"path\" is missing"},
      {R"({"kind":"step","step":1})", "\"loss\" is missing"}};
  for (const auto& [line, says] : bad) EXPECT_EQ(read_error(line + "\n").detail(), says);
}

TEST(ReadTrace, WrongValuesAreRefused) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"({"kind":"run","schema":2,"rank":0,"world":2})", "schema 2, expected 1"},
      {R"({"kind":"run","schema":1,"rank":1,"world":2})", "as in the file's name"},
      {R"({"kind":"run","schema":1,"rank":0,"world":0})", "\"world\""},
      {R"({"kind":"run","schema":1,"rank":-1,"world":2})", "\"rank\""},
      {R"({"kind":"checkpoint","step":1,"path":"p","state":"half"})", "begun or done"}};
  for (const auto& [line, says] : bad) {
    const Error error = read_error(line + "\n");
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(error.detail().find(says), std::string::npos) << error.what();
  }
}

TEST(ReadTrace, ASecondRunIsCountedAndItsEndCounts) {
  const std::string second = R"({"kind":"run","schema":1,"rank":0,"world":3})"
                             "\n";
  const std::string end = "{\"kind\":\"end\",\"step\":1}\n";
  const Trace trace = read_text(run_line + step_line(0) + end + second + step_line(0));
  EXPECT_EQ(trace.ranks[0].runs, 2);
  EXPECT_EQ(trace.ranks[0].world, 2) << "the first run event is the one kept";
  EXPECT_FALSE(trace.ranks[0].ended.has_value());
}

TEST(ReadTrace, ARepeatedStepOfOneRunIsRefused) {
  const Error error = read_error(run_line + step_line(0) + step_line(1) + step_line(0));
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_NE(error.place().find("/rank_00000.jsonl:4"), std::string::npos) << error.what();
  EXPECT_NE(error.detail().find("step 0 has a record already, at "), std::string::npos);
  EXPECT_NE(error.detail().find("/rank_00000.jsonl:2"), std::string::npos) << error.what();
  // A run that was started again does again what was lost.
  EXPECT_EQ(read_text(run_line + step_line(0) + run_line + step_line(0)).ranks[0].steps.size(), 2u);
}

TEST(ReadTrace, WithoutRunEventThereIsNoWorld) {
  const Trace trace = read_text(step_line(0));
  EXPECT_TRUE(trace.ranks[0].run.is_null());
  EXPECT_EQ(trace.ranks[0].runs, 0);
  EXPECT_EQ(trace.world(), 0);
  EXPECT_TRUE(read_text("").ranks[0].steps.empty());
}

TEST(ReadTrace, AFolderWithoutRanksIsBadInput) {
  TempFolder folder;
  const Error none = error_of([&] { read_trace(folder.path()); });
  EXPECT_EQ(none.kind(), ErrorKind::bad_input);
  EXPECT_EQ(none.place(), folder.path());
  EXPECT_NE(none.detail().find("rank_00000.jsonl"), std::string::npos);
  EXPECT_EQ(error_of([&] { read_trace(folder.file("none")); }).kind(), ErrorKind::bad_input);
  folder.write("file", "");
  EXPECT_EQ(error_of([&] { read_trace(folder.file("file")); }).kind(), ErrorKind::bad_input);
}

TEST(ReadTrace, TwoFilesOfOneRankAreRefused) {
  TempFolder folder;
  folder.write("rank_0.jsonl", step_line(0));
  folder.write("rank_00000.jsonl", step_line(0));
  EXPECT_EQ(error_of([&] { read_trace(folder.path()); }).detail(), "two files of rank 0");
}

RC_GTEST_PROP(ReadTrace, DamageGivesAnErrorOrATrace, ()) {
  std::string text = run_line + step_line(0) + step_line(1);
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  }
  try {
    RC_ASSERT(read_text(text).ranks.size() == 1u);
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::corrupt);
    RC_ASSERT(error.place().find("/rank_00000.jsonl:") != std::string::npos);
  }
}

// The last record of a step by plain search.
const StepRecord* last_of(const RankTrace& trace, std::int64_t step) {
  const StepRecord* found = nullptr;
  for (const StepRecord& record : trace.steps) {
    if (record.step == step) found = &record;
  }
  return found;
}

RC_GTEST_PROP(FindStep, FindsTheLastRecordOfAStep, ()) {
  const bool going_up = *rc::gen::arbitrary<bool>();
  std::string text;
  int step = 0;
  bool rolled_back = false;
  for (int i = *rc::gen::inRange(0, 8); i > 0; --i) {
    text += step_line(step);
    const int move = *rc::gen::inRange(going_up ? 1 : -2, 4);
    rolled_back = rolled_back || (move <= 0 && i > 1);
    if (move <= 0) text += run_line;  // started again from an earlier step
    step += move;
  }
  RankTrace trace = read_text(text).ranks[0];
  RC_ASSERT(trace.ascending == !rolled_back);
  for (int wanted = -20; wanted < 40; ++wanted) {
    RC_ASSERT(trace.find_step(wanted) == last_of(trace, wanted));
  }
  trace.ascending = false;  // as in a trace put together by hand
  for (int wanted = -20; wanted < 40; ++wanted) {
    RC_ASSERT(trace.find_step(wanted) == last_of(trace, wanted));
  }
}

}  // namespace
}  // namespace shardproof
