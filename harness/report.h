// report: one folder per run: report.html (self-contained, SVG charts), report.json (facts, no time
// and no host: byte-reproducible), timing.json (times, host), summary.md (for a CI job summary),
// junit.xml (a testcase per verdict, the replay line inside the failure). Keeps apart facts shown
// by this run, inferences, and what was not verified. Guarantee: the five files are written whole,
// report.html last. Thread rule: values; one writer.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "invariants/verdict.h"

namespace shardproof {

struct ReportSection {  // a table
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;  // one sentence below the title; may be empty
};

struct ReportSeries {  // a line of a chart; x is the index from `first`
  std::string chart;   // charts with the same name share axes
  std::string label;
  std::vector<double> values;
  int first = 0;
};

struct Report {
  std::string title;
  std::string run_line;
  std::string config_toml;       // resolved
  Json facts = Json::object();   // versions, kernels, seeds, input sizes and digests
  Json timing = Json::object();  // host, times
  std::vector<Verdict> verdicts;
  std::vector<ReportSection> sections;  // reproducible tables
  std::vector<ReportSection> timing_sections;
  std::vector<ReportSeries> series;
  std::vector<std::string> scope;  // how far the law reaches
  std::vector<std::string> inferences;
  std::vector<std::string> not_verified;
};

// Writes the files into an existing, empty-of-reports folder; Error conflict when one exists.
void write_report(const Report& report, const std::string& directory);

// The files' contents, for write_report and its tests.
Json report_json(const Report& report);
Json timing_json(const Report& report);
std::string report_summary(const Report& report);  // Markdown
std::string report_junit(const Report& report);
std::string report_html(const Report& report);

// Text as it may stand between XML or HTML tags and in quoted attributes; control characters that
// XML cannot carry become '?'.
std::string escape_markup(const std::string& text);

// A line chart of the series, as an SVG element. Lines that lie on each other stay visible: later
// series are drawn thinner. Values that are not finite leave a gap.
std::string svg_chart(const std::string& title, const std::vector<ReportSeries>& series);

}  // namespace shardproof
