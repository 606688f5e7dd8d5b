// ctest: unit
#include "harness/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

class ReportFolder : public ::testing::Test {
 protected:
  std::string read(const char* name) const {
    std::ifstream in(folder_.file(name));
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  }
  const TempFolder folder_;
};

Report sample() {
  Report report;
  report.title = "accept <dp4>";
  report.run_line = "training.steps=20";
  report.config_toml = "[training]\nsteps = 20\n";
  report.facts["versions"]["torch"] = "2.11.0";
  report.timing["host"] = "machine-17";
  report.timing["seconds"] = 12.5;
  Verdict pass;
  pass.check = "repeat";
  pass.subject = "synthetic";
  pass.sentence = "the same bits";
  pass.outcome = Outcome::pass;
  Verdict fail = pass;
  fail.check = "layout";
  fail.outcome = Outcome::fail;
  fail.reason = "bits differ in \"w\" & others";
  fail.difference = Difference{3, "grad", "w", 1, 2, 17, "3f800000", "3f800001"};
  fail.replay = "shardproof replay 'training.steps=20 run.layout=dp4.zero1'";
  Verdict open = pass;
  open.check = "cover";
  open.outcome = Outcome::inconclusive;
  open.reason = "no tensor was traced";
  report.verdicts = {pass, fail, open};
  report.sections = {{"Loss", {"step", "loss"}, {{"0", "4.1"}, {"1", "4.0"}}, "one a step"}};
  report.timing_sections = {{"Time", {"leg", "s"}, {{"main", "1.5"}}, ""}};
  report.series = {{"loss", "dp4", {4.1, 4.0, 3.9}, 0}, {"loss", "resumed", {3.9}, 2}};
  report.scope = {"one machine"};
  report.inferences = {"an inference"};
  report.not_verified = {"a gap"};
  return report;
}

TEST_F(ReportFolder, HoldsFiveFiles) {
  write_report(sample(), folder_.path());
  for (const char* name :
       {"report.json", "timing.json", "summary.md", "junit.xml", "report.html"}) {
    EXPECT_FALSE(read(name).empty()) << name;
  }
  const Json json = parse_json(read("report.json"), "report.json");
  EXPECT_EQ(json.at("exit_code"), 1);
  EXPECT_EQ(json.at("verdicts").size(), 3u);
  EXPECT_EQ(json.at("series")[0].at("bits")[0], bits_hex(4.1));
}

TEST_F(ReportFolder, IsNeverOverwritten) {
  write_report(sample(), folder_.path());
  const std::string before = read("report.json");
  Report other = sample();
  other.title = "another";
  EXPECT_THROW(write_report(other, folder_.path()), Error);
  EXPECT_EQ(read("report.json"), before);
}

TEST_F(ReportFolder, NeedsAFolder) {
  try {
    write_report(sample(), folder_.file("absent"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
  }
}

TEST(ReportJson, HoldsNoTimeAndNoHost) {
  Report first = sample(), second = sample();
  second.timing["host"] = "elsewhere";
  second.timing["seconds"] = 99;
  second.timing_sections.clear();
  EXPECT_EQ(report_json(first).dump(), report_json(second).dump());
  EXPECT_EQ(report_json(first).dump().find("machine-17"), std::string::npos);
  EXPECT_NE(timing_json(first).dump().find("machine-17"), std::string::npos);
}

TEST(ReportSummary, TellsTheFirstDifferenceAndTheReplayLine) {
  const std::string text = report_summary(sample());
  EXPECT_NE(text.find("1 pass, 1 fail, 1 inconclusive"), std::string::npos);
  EXPECT_NE(text.find("| **FAIL** | layout |"), std::string::npos);
  EXPECT_NE(text.find("element 17: expected 3f800000, found 3f800001"), std::string::npos);
  EXPECT_NE(text.find("`shardproof replay 'training.steps=20 run.layout=dp4.zero1'`"),
            std::string::npos);
}

TEST(ReportJunit, AFailureHoldsTheReplayLineAndAnInconclusiveIsAnError) {
  const std::string xml = report_junit(sample());
  EXPECT_NE(xml.find("tests=\"3\" failures=\"1\" errors=\"1\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("message=\"bits differ in &quot;w&quot; &amp; others\""), std::string::npos);
  EXPECT_NE(xml.find("replay: shardproof replay &#39;training.steps=20"), std::string::npos);
  EXPECT_NE(xml.find("<error message=\"no tensor was traced\">"), std::string::npos);
}

TEST(ReportHtml, StandsAloneAndShowsEverything) {
  const std::string html = report_html(sample());
  for (const char* outside : {"http://", "https://", "<script", "<link", "src="}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  for (const char* inside : {"accept &lt;dp4&gt;", "machine-17", "found 3f800001", "<svg", "2.11.0",
                             "a gap", "an inference", "one machine", "one a step"}) {
    EXPECT_NE(html.find(inside), std::string::npos) << inside;
  }
}

TEST(EscapeMarkup, LeavesNothingThatXmlCannotCarry) {
  EXPECT_EQ(escape_markup("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escape_markup(std::string("x\x01y\n")), "x?y\n");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++out;
  return out;
}

TEST(SvgChart, DrawsALinePerSeriesAndGapsAtNaN) {
  EXPECT_EQ(count(svg_chart("loss", sample().series), "<polyline"), 2u);
  const ReportSeries gap{"loss", "a", {1, 2, std::nan(""), 4, 5}, 0};
  const std::string svg = svg_chart("loss", {gap});
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(SvgChart, SurvivesConstantAndEmptySeries) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, std::vector<double>{3}, std::vector<double>{3, 3, 3},
        std::vector<double>{INFINITY}}) {
    const std::string svg = svg_chart("loss", {{"loss", "a", values, 0}});
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(count(svg, "<svg"), 1u);
  }
  EXPECT_EQ(count(svg_chart("none", {}), "<svg"), 1u);
}

}  // namespace
}  // namespace shardproof
