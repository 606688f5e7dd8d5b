// report: one folder per run: report.html (self-contained, SVG charts), report.json (facts, no time
// and no host: byte-reproducible), timing.json (times, host), summary.md (for a CI job summary),
// junit.xml (a testcase per verdict, the replay line inside the failure). Keeps apart facts shown by
// this run, inferences, and what was not verified.
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
};

struct ReportSeries {   // a line of a chart; x is the index from 0
  std::string chart;    // charts with the same name share axes
  std::string label;
  std::vector<double> values;
};

struct Report {
  std::string title;
  std::string run_line;
  std::string config_toml;               // resolved
  Json facts = Json::object();           // versions, kernels, seeds, input sizes and digests
  Json timing = Json::object();          // host, times
  std::vector<Verdict> verdicts;
  std::vector<ReportSection> sections;   // reproducible tables
  std::vector<ReportSection> timing_sections;
  std::vector<ReportSeries> series;
  std::vector<std::string> inferences;
  std::vector<std::string> not_verified;
};

// Writes the files into an existing, empty-of-reports folder; Error conflict when one exists.
void write_report(const Report& report, const std::string& directory);

}  // namespace shardproof
