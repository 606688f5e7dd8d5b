// ctest: unit
// What a subject file may say, and what it is told when it says it wrongly.
#include "harness/judge/subject_file.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

const std::string launch = "run {ranks} {args} {dtype} {steps} {save} {ckpt} {resume}";

std::string toml(const std::string& subject = "", const std::string& layouts = "") {
  return "[subject]\nlaunch = \"" + launch + "\"\nresume = \"--resume\"\ncheckpoint = \"dcp\"\n" +
         subject + "[layout.ref]\nranks = 1\n[layout.ddp2]\nargs = \"--mode ddp\"\nranks = 2\n" +
         layouts;
}

void refuses(const std::string& text, std::initializer_list<std::string_view> words,
             const std::vector<std::string>& set = {}) {
  expect_error(ErrorKind::bad_input, words, [&] { parse_subject(text, "a.toml", set); });
}

TEST(SubjectFile, HasDefaults) {
  const Subject subject = parse_subject(toml(), "/there/a.toml");
  EXPECT_EQ(subject.folder, "/there");
  EXPECT_EQ(subject.steps, 6);
  EXPECT_EQ(subject.save, 3);
  EXPECT_EQ(subject.deadline, 120);
  EXPECT_TRUE(subject.reshard) << "torch's distributed checkpoint loads on any layout";
  EXPECT_FALSE(parse_subject(toml(), "a.toml", {"subject.checkpoint=torch"}).reshard);
  EXPECT_TRUE(subject.traces());
  ASSERT_EQ(subject.layouts.size(), 2u);
  EXPECT_EQ(subject.layouts[0].name, "ref") << "in the order of the text, not of the names";
  EXPECT_EQ(subject.layout("ddp2").args, "--mode ddp");
  EXPECT_FALSE(subject.layout("ddp2").bitwise);
  EXPECT_TRUE(subject.layout("ddp2").asks("kill"));
}

TEST(SubjectFile, TakesEveryKeyInBothLanguagesAndFromTheCommandLine) {
  const std::string more =
      "float64 = \"f\"\nreversed = \"r\"\naccumulate = \"a\"\nreshard = false\ndeadline = 1.5\n"
      "at_once = 2\nsteps = 8\nsave = 4\nmatch = \"w.*\"\nkill = \"ddp2\"\nscalars = \"trace\"\n";
  const std::string layout =
      "bitwise = true\nreshard = true\nchecks = [\"layout\"]\n"
      "[layout.ddp2.expect]\nlayout = \"lost\"\n";
  const Subject first = parse_subject(toml(more, layout), "a.toml");
  const std::string json =
      R"({"subject": {"launch": ")" + launch +
      R"(", "resume": "--resume", "checkpoint": "dcp", "float64": "f", "reversed": "r",
          "accumulate": "a", "reshard": false, "deadline": 1.5, "at_once": 2, "steps": 8, "save": 4,
          "match": "w.*", "kill": "ddp2", "scalars": "trace"},
          "layout": {"ref": {"ranks": 1}, "ddp2": {"ranks": 2, "args": "--mode ddp",
          "bitwise": true, "reshard": true, "checks": ["layout"],
          "expect": {"layout": "lost"}}}})";
  const Subject second = parse_subject(json, "a.json");
  const Subject third = parse_subject(
      toml(), "a.toml",
      {"subject.float64=f", "subject.reversed=r", "subject.accumulate=a", "subject.reshard=false",
       "subject.deadline=1.5", "subject.at_once=2", "subject.steps=8", "subject.save=4",
       "subject.match=w.*", "subject.kill=ddp2", "subject.scalars=trace",
       "layout.ddp2.bitwise=true", "layout.ddp2.reshard=true", "layout.ddp2.checks=[\"layout\"]",
       "layout.ddp2.expect.layout=lost"});
  for (const Subject* each : {&first, &second, &third}) {
    EXPECT_EQ(each->launch, launch);
    EXPECT_EQ(each->float64 + each->reversed + each->accumulate, "fra");
    EXPECT_FALSE(each->reshard);
    EXPECT_EQ(each->deadline, 1.5);
    EXPECT_EQ(each->at_once, 2);
    EXPECT_EQ(each->steps, 8);
    EXPECT_EQ(each->save, 4);
    EXPECT_EQ(each->match + each->kill, "w.*ddp2");
    const SubjectLayout& ddp = each->layout("ddp2");
    EXPECT_TRUE(ddp.bitwise && *ddp.reshard);
    EXPECT_TRUE(ddp.asks("layout"));
    EXPECT_FALSE(ddp.asks("live"));
    EXPECT_EQ(ddp.expect.at("layout"), "lost");
  }
}

TEST(SubjectFile, SaysAllThatCountsAsTextThatReadsAsTheSame) {
  const std::string text = toml("steps = 8\nmatch = \"\\\"w\\\\.\\t\\u00e9\"\n");
  const Subject first = parse_subject(text, "a.toml", {"subject.steps=9", "layout.ddp2.ranks=3"});
  EXPECT_NE(first.text.find("\nsubject.steps = 9\n"), std::string::npos) << first.text;
  EXPECT_EQ(first.text.find("steps = 8"), std::string::npos) << first.text;
  const Subject again = parse_subject(first.text, "a.toml");
  EXPECT_EQ(again.match, first.match);
  EXPECT_EQ(again.launch, launch);
  EXPECT_EQ(again.layout("ddp2").ranks, 3);
  EXPECT_EQ(again.layouts.at(0).name, "ref");
  EXPECT_NE(again.digest, first.digest) << "of the file alone";
  EXPECT_EQ(first.digest, parse_subject(text, "b.toml").digest);
}

TEST(SubjectFile, TakesPlaceholdersInWhatItPutsIntoTheLaunch) {
  EXPECT_NO_THROW(parse_subject(
      toml(), "a.toml",
      {"subject.resume=--from {ckpt}/{save}.pt", "subject.match=a{3}",
       "layout.ddp2.args=-n {ranks} -s {steps} ${x}", "subject.reversed=-r {ranks}"}));
  for (const std::string key :
       {"subject.resume", "subject.accumulate", "subject.reversed", "layout.ddp2.args"}) {
    refuses(toml(), {"--set " + key, key + ": unknown placeholder {chkpt}", "{ckpt}"},
            {key + "=--from {chkpt}"});
  }
  refuses(toml(), {"--set subject.float64", "unknown placeholder {resume}"},
          {"subject.float64=x {resume}"});
  refuses(toml(), {"layout.ddp2.args: unknown placeholder {ckpt}"},
          {"layout.ddp2.args={ckpt}", "subject.checkpoint=none",
           "subject.launch=run {ranks} {args} {steps}"});
}

TEST(SubjectFile, ReadsTheFileItNames) {
  const TempFolder folder;
  folder.write("s.toml", toml());
  EXPECT_EQ(load_subject(folder.file("s.toml")).folder, folder.path());
  expect_error(ErrorKind::bad_input, {"none.toml"},
               [&] { load_subject(folder.file("none.toml")); });
  folder.write("s.yaml", toml());
  expect_error(ErrorKind::bad_input, {"s.yaml", ".toml or .json"},
               [&] { load_subject(folder.file("s.yaml")); });
}

TEST(SubjectFile, NamesKeyAndLineOfAMistake) {
  refuses(toml("stepps = 6\n"), {"a.toml:5", "subject.stepps", "expected subject.steps"});
  refuses(toml("colour = 6\n"), {"subject.colour", "one of subject.launch, resume"});
  refuses(toml("steps = \"six\"\n"), {"a.toml:5", "subject.steps", "\"six\"", "an integer"});
  refuses(toml("deadline = 0\n"), {"subject.deadline", "more than 0"});
  refuses(toml("deadline = nan\n"), {"subject.deadline", "found nan"});
  refuses(toml("match = \"" + std::string(1001, 'a') + "\"\n"),
          {"1001 characters", "at most 1000"});
  refuses(toml("match = \"" + std::string(300000, 'a') + "\"\n"), {"300000 characters"});
  refuses(toml("", "[layout." + std::string(101, 'a') + "]\nranks = 1\n"), {"at most 100"});
  refuses(toml("", "[layout." + std::string(300000, 'a') + "]\nranks = 1\n"), {"at most 100"});
  refuses(toml(), {"--set subject.match=", "not UTF-8"}, {"subject.match=caf\xE9"});
  refuses(toml("match = \"(\"\n"), {"a.toml:5", "subject.match", "regular expression"});
  refuses(toml("scalars = \"guess\"\n"), {"subject.scalars", "one of trace, torchtitan"});
  refuses(toml("save = 5\n"), {"a.toml:5", "subject.save is 5 of 6", "at least 2 steps behind"});
  refuses(toml("kill = \"tp2\"\n"), {"subject.kill", "no [layout.tp2]"});
  refuses(toml("when = 1979-05-27\n"), {"a.toml:5", "1979-05-27"});
  refuses(toml("", "[other]\na = 1\n"), {"other.a", "[subject] and [layout.NAME]"});
  refuses(toml("", "[layout.ddp2.expect]\nspeed = \"slow\"\n"),
          {"a.toml:11", "unknown check speed", "live, cover"});
  refuses(toml("", "checks = [\"live\"]\n[layout.ddp2.expect]\nlayout = \"x\"\n"),
          {"layout.ddp2.expect.layout", "not in layout.ddp2.checks"});
  refuses(toml("", "checks = [\"speed\"]\n"), {"layout.ddp2.checks", "a list of live"});
  refuses(toml("", "[layout.\"a.b\"]\nranks = 1\n"), {"a.b", "letters, digits"});
  refuses(toml("a = \n"), {"a.toml:5", "not TOML"});
  refuses(toml(), {"--set subject.steps", "KEY=VALUE"}, {"subject.steps"});
  refuses(toml(), {"--set subject.step=8", "expected subject.steps"}, {"subject.step=8"});
  expect_error(ErrorKind::bad_input, {"a.json"}, [] { parse_subject("[]", "a.json"); });
}

TEST(SubjectFile, SaysWhatToAdd) {
  refuses("[layout.ref]\nranks = 1\n", {"a.toml", "subject.launch is missing", "torchrun"});
  refuses(toml("", "[layout.fsdp2]\nargs = \"x\"\n"),
          {"a.toml:11", "layout.fsdp2 has no ranks", "add ranks = 2"});
  refuses(toml("", "[layout.empty]\n"), {"layout.empty has no ranks"});
  refuses("[subject]\nlaunch = \"" + launch + "\"\nresume = \"r\"\ncheckpoint = \"dcp\"\n",
          {"no [layout.ref]"});
  for (const std::string name : {"ranks", "args", "steps", "save", "ckpt", "resume", "dtype"}) {
    std::string without = launch;
    without.erase(without.find("{" + name + "}"), name.size() + 2);
    const std::string lacks = "subject.launch has no {" + name + "}";
    refuses(toml(), {lacks, "add it"}, {"subject.launch=" + without, "subject.float64=--float64"});
  }
  refuses(toml(), {"unknown placeholder {rank}", "{ranks}"},
          {"subject.launch=" + launch + "{rank}"});
  EXPECT_NO_THROW(parse_subject(toml(), "a.toml", {"subject.launch=" + launch + "${rank}"}))
      << "a variable of the shell";
  refuses(toml(), {"subject.resume is missing", "--resume"}, {"subject.resume="});
  refuses(toml(), {"{ckpt} while checkpoint is \"none\""}, {"subject.checkpoint=none"});
  const std::string bare = "subject.launch=run {ranks} {args} {steps}";
  EXPECT_FALSE(parse_subject(toml(), "a.toml", {"subject.checkpoint=none", bare}).saves());
}

}  // namespace
}  // namespace shardproof
