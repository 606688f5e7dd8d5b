// The files of a report, but for the page and the JUnit text.
#include "harness/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr const char* file_names[] = {"report.json", "timing.json", "summary.md", "junit.xml",
                                      "report.html"};

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw Error(ErrorKind::io, "write " + path.string(), std::strerror(errno));
}

Json section_json(const ReportSection& section) {
  return Json{{"title", section.title},
              {"note", section.note},
              {"columns", section.columns},
              {"rows", section.rows}};
}

int count(const Report& report, Outcome outcome) {
  int out = 0;
  for (const Verdict& verdict : report.verdicts) out += verdict.outcome == outcome;
  return out;
}

// Markdown table cells end at '|'.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

Json report_json(const Report& report) {
  Json out;
  out["schema"] = 1;
  out["title"] = report.title;
  out["run"] = report.run_line;
  out["exit_code"] = exit_code(report.verdicts);
  out["verdicts"] = Json::array();
  for (const Verdict& verdict : report.verdicts) out["verdicts"].push_back(verdict.to_json());
  out["facts"] = report.facts;
  out["scope"] = report.scope;
  out["inferences"] = report.inferences;
  out["not_verified"] = report.not_verified;
  out["tables"] = Json::array();
  for (const ReportSection& section : report.sections)
    out["tables"].push_back(section_json(section));
  out["series"] = Json::array();
  for (const ReportSeries& series : report.series) {
    Json values = Json::array();
    for (const double value : series.values) values.push_back(bits_hex(value));
    out["series"].push_back(Json{{"chart", series.chart},
                                 {"label", series.label},
                                 {"first", series.first},
                                 {"values", series.values},
                                 {"bits", values}});
  }
  out["config"] = report.config_toml;
  return out;
}

Json timing_json(const Report& report) {
  Json out;
  out["schema"] = 1;
  out["timing"] = report.timing;
  out["tables"] = Json::array();
  for (const ReportSection& section : report.timing_sections) {
    out["tables"].push_back(section_json(section));
  }
  return out;
}

std::string report_summary(const Report& report) {
  const int known = count(report, Outcome::expected_fail);
  std::string out = fmt::format(
      "## {}\n\n{} pass, {} fail, {} inconclusive{}. Exit code {}.\n\n| | check | subject | "
      "expected |\n|---|---|---|---|\n",
      report.title, count(report, Outcome::pass), count(report, Outcome::fail),
      count(report, Outcome::inconclusive),
      known > 0 ? fmt::format(", {} failed as expected", known) : "", exit_code(report.verdicts));
  for (const Verdict& verdict : report.verdicts) {
    out += fmt::format("| {} | {} | {} | {} |\n",
                       verdict.outcome == Outcome::fail ? "**FAIL**" : name(verdict.outcome),
                       cell(verdict.check), cell(verdict.subject), cell(verdict.sentence));
  }
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.outcome == Outcome::pass) continue;
    out += fmt::format("\n### {}: {}\n\n{}\n", verdict.check, verdict.subject, verdict.reason);
    if (verdict.difference) {
      out += fmt::format("\nFirst difference: `{}`\n", verdict.difference->print());
    }
    if (!verdict.replay.empty()) out += fmt::format("\nReplay: `{}`\n", verdict.replay);
  }
  return out;
}

void write_report(const Report& report, const std::string& directory) {
  const std::filesystem::path root(directory);
  if (!std::filesystem::is_directory(root)) {
    throw Error(ErrorKind::io, directory, "expected an existing folder for the report");
  }
  for (const char* name : file_names) {
    if (std::filesystem::exists(root / name)) {
      throw Error(ErrorKind::conflict, (root / name).string(),
                  "a report is here already; it is never overwritten");
    }
  }
  write_file(root / "report.json",
             report_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  write_file(root / "timing.json",
             timing_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  write_file(root / "summary.md", report_summary(report));
  write_file(root / "junit.xml", report_junit(report));
  write_file(root / "report.html", report_html(report));
}

}  // namespace shardproof
