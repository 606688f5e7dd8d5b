// ctest: unit
// What is said of an output: in whole characters, and with the error that a launcher buried.
#include "harness/judge/leg_output.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

std::string words(const std::string& output) {
  const TempFolder folder;
  folder.write("output.txt", output);
  std::string out = last_words(folder.file("output.txt"));
  EXPECT_NO_THROW(Json(out).dump()) << "a report is UTF-8";
  const std::string place = folder.file("output.txt");
  const std::size_t at = out.find(place);
  EXPECT_NE(at, std::string::npos) << out;
  return at == std::string::npos ? out : out.replace(at, place.size(), "FILE");
}

TEST(LegOutput, CutsBetweenCharacters) {
  const std::string e = "\xC3\xA9";
  EXPECT_EQ(whole_utf8("a" + e, 2), "a");
  EXPECT_EQ(whole_utf8("a" + e, 3), "a" + e);
  EXPECT_EQ(whole_utf8("\xF0\x9F\x98\x80", 3), "");
  EXPECT_EQ(whole_utf8("a\xFFz", 10), "a\xEF\xBF\xBDz");
  std::string line = "x";
  while (line.size() < 300) line += e;
  EXPECT_EQ(words(line), "it printed last: " + line.substr(0, 199) + " (all of it: FILE)");
}

TEST(LegOutput, OfBytesThatAreNoTextIsText) {
  const std::string found = words(std::string("\xE9t\xE9\x80\0\n\xC3", 7));
  EXPECT_NE(found.find("\xEF\xBF\xBDt\xEF\xBF\xBD"), std::string::npos) << found;
  EXPECT_EQ(words(""), "it printed nothing (FILE)");
  EXPECT_EQ(words("----\n\n"), "it printed nothing (FILE)");
}

TEST(LegOutput, FindsTheErrorBeforeThePageOfALauncher) {
  const std::string launcher =
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
      "=====\nRoot Cause:\n  error_file: <N/A>\n  exitcode  : 1 (pid: 7)\n"
      "  traceback : To enable traceback see: elastic/errors.html\n";
  EXPECT_EQ(words("ValueError: early\nloss 3\n[rank1]: KeyError: 'w'\nstep\n" + launcher),
            "it printed: [rank1]: KeyError: 'w'; it printed last:   error_file: <N/A> |   exitcode "
            " : 1 (pid: 7) |   traceback : To enable traceback see: elastic/errors.html (all of "
            "it: FILE)");
  EXPECT_EQ(words("train.py: error: no such option\na\nb\nc\n"),
            "it printed: train.py: error: no such option; it printed last: a | b | c (all of it: "
            "FILE)");
  EXPECT_EQ(words("OSError: gone\n"), "it printed last: OSError: gone (all of it: FILE)")
      << "said once";
  EXPECT_EQ(words("the error rate is 3\na\nb\nc\n"),
            "it printed last: a | b | c (all of it: FILE)");
}

}  // namespace
}  // namespace shardproof
