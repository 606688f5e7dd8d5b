// html: the report as one page that needs nothing from outside. Light, prints well, no script.
#include <fmt/format.h>

#include <map>

#include "harness/report.h"

namespace shardproof {
namespace {

constexpr const char* style = R"(
:root{--ink:#1c2430;--soft:#5b6675;--line:#e1e5ea;--card:#fff;--page:#f6f7f9;--good:#117a47;
--goodback:#e5f4ec;--bad:#b3261e;--badback:#fdecea;--open:#8a5a00;--openback:#fff4dc}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}h1{font-size:24px;margin:0 0 6px}
h2{font-size:18px;margin:34px 0 10px}h3{font-size:15px;margin:0 0 8px}p{margin:6px 0}
.soft{color:var(--soft)}
code,pre,.mono td{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",
monospace;font-size:12.5px}
pre{background:#f0f2f5;border:1px solid var(--line);border-radius:6px;padding:10px;
white-space:pre-wrap;overflow-wrap:anywhere;margin:8px 0}code{overflow-wrap:anywhere}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px;
margin:10px 0;overflow-x:auto}
.head{display:flex;gap:14px;align-items:center;flex-wrap:wrap;margin-bottom:10px}
.badge{display:inline-block;border-radius:999px;padding:1px 10px;font-size:12px;font-weight:600;
white-space:nowrap}.big{font-size:15px;padding:4px 16px}
.pass{color:var(--good);background:var(--goodback)}
.fail{color:var(--bad);background:var(--badback)}
.inconclusive,.expected-fail{color:var(--open);background:var(--openback)}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-size:12px;color:var(--soft);font-weight:600;
border-bottom:1px solid var(--line);padding:4px 10px 4px 0;white-space:nowrap}
td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}.mono td{white-space:nowrap}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:12px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:12px}figcaption{font-weight:600;margin-bottom:4px}
svg{width:100%;height:auto;display:block}.grid{stroke:#e8ebef}.tick{font-size:13px;fill:#5b6675}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12.5px}
.key i{display:inline-block;width:18px;height:4px;border-radius:2px;margin-right:6px;
vertical-align:middle}ul{margin:6px 0;padding-left:20px}summary{cursor:pointer;font-weight:600}
)";

std::string badge(Outcome outcome, const char* extra = "") {
  return fmt::format("<span class=\"badge {} {}\">{}</span>", name(outcome), extra, name(outcome));
}

std::string overall(const Report& report) {
  std::map<Outcome, int> counts;
  for (const Verdict& verdict : report.verdicts) ++counts[verdict.outcome];
  const int code = exit_code(report.verdicts);
  const Outcome outcome = code == 0   ? Outcome::pass
                          : code == 1 ? Outcome::fail
                                      : Outcome::inconclusive;
  return badge(outcome, "big") +
         fmt::format(
             "<span class=\"soft\">{} of {} verdicts pass, {} fail, {} inconclusive; exit code "
             "{}</span>",
             counts[Outcome::pass], report.verdicts.size(), counts[Outcome::fail],
             counts[Outcome::inconclusive], code);
}

std::string troubles(const Report& report) {
  std::string out;
  for (const Verdict& verdict : report.verdicts) {
    if (verdict.outcome == Outcome::pass) continue;
    out += fmt::format("<div class=\"card\"><h3>{} {} <span class=\"soft\">{}</span></h3><p>{}</p>",
                       badge(verdict.outcome), escape_markup(verdict.check),
                       escape_markup(verdict.subject), escape_markup(verdict.reason));
    if (verdict.difference) {
      out += "<p class=\"soft\">First difference</p><pre>" +
             escape_markup(verdict.difference->print()) + "</pre>";
    }
    if (!verdict.replay.empty()) {
      out += "<p class=\"soft\">Replay</p><pre>" + escape_markup(verdict.replay) + "</pre>";
    }
    out += "</div>";
  }
  return out.empty() ? out : "<h2>What went wrong</h2>" + out;
}

std::string verdict_tables(const Report& report) {
  std::vector<std::string> order;
  std::map<std::string, std::string> rows;
  for (const Verdict& verdict : report.verdicts) {
    std::string& out = rows[verdict.subject];
    if (out.empty()) order.push_back(verdict.subject);
    std::string shown;
    for (const std::string& note : verdict.notes) {
      shown += "<div class=\"soft\">" + escape_markup(note) + "</div>";
    }
    out +=
        fmt::format("<tr><td>{}</td><td><b>{}</b></td><td>{}{}</td></tr>", badge(verdict.outcome),
                    escape_markup(verdict.check), escape_markup(verdict.sentence), shown);
  }
  std::string out = "<h2>Facts shown by this run</h2>";
  for (const std::string& subject : order) {
    out += fmt::format(
        "<div class=\"card\"><h3>{}</h3><table><tr><th></th><th>check</th>"
        "<th>what was expected before the run, and what was seen</th></tr>{}</table>"
        "</div>",
        escape_markup(subject), rows[subject]);
  }
  return out;
}

std::string charts(const Report& report) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<ReportSeries>> by_chart;
  for (const ReportSeries& series : report.series) {
    if (by_chart[series.chart].empty()) order.push_back(series.chart);
    by_chart[series.chart].push_back(series);
  }
  if (order.empty()) return "";
  std::string out =
      "<h2>Loss and gradient norm</h2><p class=\"soft\">All legs of a corpus share one "
      "chart. Where the law holds their lines lie on each other: later legs are drawn "
      "thinner on top.</p><div class=\"charts\">";
  for (const std::string& chart : order) out += svg_chart(chart, by_chart[chart]);
  return out + "</div>";
}

std::string table(const ReportSection& section) {
  std::string out = fmt::format("<div class=\"card\"><h3>{}</h3>", escape_markup(section.title));
  if (!section.note.empty()) out += "<p class=\"soft\">" + escape_markup(section.note) + "</p>";
  out += "<table class=\"mono\"><tr>";
  for (const std::string& column : section.columns) out += "<th>" + escape_markup(column) + "</th>";
  out += "</tr>";
  for (const std::vector<std::string>& row : section.rows) {
    out += "<tr>";
    for (const std::string& each : row) out += "<td>" + escape_markup(each) + "</td>";
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string tables(const char* title, const std::vector<ReportSection>& sections) {
  if (sections.empty()) return "";
  std::string out = fmt::format("<h2>{}</h2>", title);
  for (const ReportSection& section : sections) out += table(section);
  return out;
}

std::string list(const char* title, const std::vector<std::string>& lines) {
  std::string out = fmt::format("<h2>{}</h2><div class=\"card\"><ul>", title);
  for (const std::string& line : lines) out += "<li>" + escape_markup(line) + "</li>";
  if (lines.empty()) out += "<li>nothing</li>";
  return out + "</ul></div>";
}

// Objects become rows "a.b.c | value".
void flatten(const Json& json, const std::string& path, std::string& rows) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      flatten(value, path.empty() ? key : path + "." + key, rows);
    }
    return;
  }
  const std::string text = json.is_string()
                               ? json.get<std::string>()
                               : json.dump(-1, ' ', false, Json::error_handler_t::replace);
  rows += fmt::format("<tr><td>{}</td><td><code>{}</code></td></tr>", escape_markup(path),
                      escape_markup(text));
}

std::string facts(const char* title, const Json& json) {
  std::string rows;
  flatten(json, "", rows);
  return fmt::format("<h2>{}</h2><div class=\"card\"><table>{}</table></div>", title, rows);
}

}  // namespace

std::string report_html(const Report& report) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" "
      "content=\"light\">"
      "<title>{}</title><style>{}</style></head><body><main>\n<h1>{}</h1><div "
      "class=\"head\">{}</div>\n"
      "<p class=\"soft\">Run</p><pre>{}</pre>\n",
      escape_markup(report.title), style, escape_markup(report.title), overall(report),
      escape_markup(report.run_line));
  out += troubles(report);
  out += charts(report);
  out += verdict_tables(report);
  out += tables("Tables", report.sections);
  out += list("Scope of the law", report.scope);
  out += list("Inferences", report.inferences);
  out += list("Not verified", report.not_verified);
  out += tables("Time", report.timing_sections);
  out += facts("Environment and inputs", report.facts);
  out += facts("Host and times of this run", report.timing);
  out +=
      "<h2>Resolved config</h2><details class=\"card\"><summary>TOML, loadable "
      "again</summary><pre>" +
      escape_markup(report.config_toml) + "</pre></details>\n";
  return out + "</main></body></html>\n";
}

}  // namespace shardproof
