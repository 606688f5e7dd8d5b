// Tables of layouts and legs, and what the report may claim.
#include "harness/judge/subject_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/accept_report.h"
#include "harness/accept_tables.h"

namespace shardproof {
namespace {

// The worst of a layout's outcomes for a check; "" where it was not asked.
std::string outcome_of(const JudgedSubject& judged, const std::string& layout,
                       std::string_view check) {
  constexpr Outcome from_worst[] = {Outcome::fail, Outcome::inconclusive, Outcome::expected_fail,
                                    Outcome::pass};
  for (const Outcome outcome : from_worst) {
    for (const SubjectVerdict& each : judged.verdicts) {
      if (each.layout == layout && each.verdict.check == check && each.verdict.outcome == outcome) {
        return std::string(name(outcome));
      }
    }
  }
  return "-";
}

ReportSection verdict_table(const JudgedSubject& judged) {
  ReportSection out{"Verdicts", {"layout"}, {}, ""};
  for (const std::string_view check : subject_checks) out.columns.emplace_back(check);
  for (const SubjectLayout& layout : judged.subject.layouts) {
    std::vector<std::string> row = {layout.name};
    for (const std::string_view check : subject_checks) {
      row.push_back(outcome_of(judged, layout.name, check));
    }
    const bool asked = std::any_of(row.begin() + 1, row.end(),
                                   [](const std::string& cell) { return cell != "-"; });
    if (asked) out.rows.push_back(std::move(row));
  }
  return out;
}

ReportSection leg_table(const JudgedSubject& judged) {
  ReportSection out{"Legs", {"leg", "ranks", "exit code", "seconds", "end"}, {}, ""};
  for (const auto& [name, leg] : judged.legs) {
    const std::string end = !leg.skipped.empty()   ? "not run: " + leg.skipped
                            : leg.leg.bare         ? "without the checkpoint: " + leg.problem
                            : !leg.problem.empty() ? leg.problem
                            : !leg.unclean.empty() ? "unclean exit: " + leg.unclean
                            : leg.leg.kill         ? "killed: " + leg.leg.kill->fault()
                                                   : "well";
    out.rows.push_back({name, std::to_string(judged.subject.layout(leg.leg.layout).ranks),
                        leg.skipped.empty() ? std::to_string(leg.exit_code) : "-",
                        fmt::format("{:.1f}", leg.seconds), reproducible(end, judged.out)});
  }
  return out;
}

void add_series(Report& report, const std::string& label, const Trace& trace) {
  const std::vector<std::int64_t> steps = trace.step_numbers();
  if (steps.empty()) return;
  for (const bool norm : {false, true}) {
    ReportSeries series{
        norm ? "gradient norm" : "loss", label, {}, static_cast<int>(steps.front())};
    for (const std::int64_t step : steps) {
      const StepRecord* record = trace.ranks.front().find_step(step);
      if (record != nullptr) series.values.push_back(norm ? record->grad_norm : record->loss);
    }
    report.series.push_back(std::move(series));
  }
}

void add_facts(Report& report, const JudgedSubject& judged) {
  const Subject& subject = judged.subject;
  report.config_toml = subject.text;
  report.facts["shardproof"] = Json{{"version", SHARDPROOF_VERSION}, {"commit", source_commit()}};
  report.facts["subject"] = Json{{"file", std::filesystem::path(subject.file).filename().string()},
                                 {"digest", subject.digest},
                                 {"launch", subject.launch},
                                 {"steps", subject.steps},
                                 {"save", subject.save},
                                 {"checkpoint", subject.checkpoint}};
  if (!judged.set.empty()) report.facts["subject"]["set"] = judged.set;
  const auto reference = judged.legs.find("ref");
  if (reference == judged.legs.end() || reference->second.trace.ranks.empty()) return;
  const Json& run = reference->second.trace.ranks.front().run;
  for (const char* key : {"code", "versions", "data"}) {
    if (run.is_object() && run.contains(key)) report.facts["subject"][key] = run[key];
  }
}

void add_statements(Report& report, const JudgedSubject& judged) {
  report.scope = {
      "The program is a black box started by the command of the subject file; verdicts are "
      "computed "
      "from the traces in legs/ and from what lies in checkpoints/, never from its output.",
      "Layouts are compared from the same weights by the error of their gradients against a "
      "float64 "
      "leg (or, without one, against the spread of benign runs), and bit for bit only where the "
      "subject file claims it. Repeat, resume and restart are bit for bit on one layout."};
  report.inferences = {
      "What the program does not trace cannot be seen: a gradient is what its emitter took before "
      "clipping, and the samples are those it names."};
  report.not_verified = {"Other layouts, other steps than those that ran, other machines; speed."};
  if (!judged.subject.match.empty()) {
    report.not_verified.push_back("Tensors whose names do not match " + judged.subject.match);
  }
  if (!judged.subject.traces()) report.not_verified.push_back("Tensors: not verified.");
  for (const auto& [name, leg] : judged.legs) {
    if (leg.no_place && leg.leg.kill) report.not_verified.push_back(name + ": " + leg.skipped);
  }
}

// What a pass leaves to be said: a measured ratio, an unclean exit.
std::string pass_notes(const Verdict& verdict) {
  std::string out;
  for (const std::string& note : verdict.notes) {
    const bool ratio = verdict.check == "layout" && &note == &verdict.notes.front();
    const bool kill = verdict.check == "kill" && !note.starts_with("ended with");
    if (ratio || kill || note.starts_with("unclean exit")) {
      out += fmt::format("      {:<9} {}\n", "note", note);
    }
  }
  return out;
}

}  // namespace

Report make_subject_report(const std::string& title, const JudgedSubject& judged) {
  Report report;
  report.title = title;
  report.run_line = judged.subject.launch;
  for (const SubjectVerdict& each : judged.verdicts) report.verdicts.push_back(each.verdict);
  report.timing = machine_facts(judged.seconds);
  add_facts(report, judged);
  report.sections.push_back(verdict_table(judged));
  report.timing_sections.push_back(leg_table(judged));
  for (const SubjectLayout& layout : judged.subject.layouts) {
    const auto leg = judged.legs.find(layout.name);
    if (leg == judged.legs.end() || leg->second.trace.ranks.empty()) continue;
    report.sections.push_back(loss_table(layout.name, leg->second.trace));
    add_series(report, layout.name, leg->second.trace);
  }
  add_statements(report, judged);
  return report;
}

std::string subject_screen(const JudgedSubject& judged, const Report& report) {
  std::string out;
  for (const SubjectLayout& layout : judged.subject.layouts) {
    std::string lines;
    for (const auto& [name, verdict] : judged.verdicts) {
      if (name != layout.name) continue;
      lines += verdict_lines(verdict);
      if (verdict.outcome == Outcome::fail && verdict.difference) {
        lines += fmt::format("      {:<9} {}\n", "found", verdict.reason);
      }
      lines += pass_notes(verdict);
    }
    if (!lines.empty()) out += "\n" + layout.name + "\n" + lines;
  }
  return out + "\n" + text_table(report.sections.front());
}

}  // namespace shardproof
