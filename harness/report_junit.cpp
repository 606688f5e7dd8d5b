// junit: a testcase per verdict. A failed verdict is a failure, an inconclusive one an error (a CI
// that shows skipped tests as green must not show it so).
#include <fmt/format.h>

#include "harness/report.h"

namespace shardproof {
namespace {

std::string body(const Verdict& verdict) {
  std::string out = "expected: " + verdict.sentence + "\nfound: " + verdict.reason + "\n";
  if (verdict.difference) out += "first difference: " + verdict.difference->print() + "\n";
  if (!verdict.replay.empty()) out += "replay: " + verdict.replay + "\n";
  return out;
}

std::string testcase(const Verdict& verdict) {
  const std::string head =
      fmt::format("  <testcase classname=\"{}\" name=\"{}\"",
                  escape_markup("shardproof." + verdict.subject), escape_markup(verdict.check));
  const bool failed = verdict.outcome == Outcome::fail;
  if (!failed && verdict.outcome != Outcome::inconclusive) return head + "/>\n";
  const char* tag = failed ? "failure" : "error";
  return fmt::format("{}>\n    <{} message=\"{}\">{}</{}>\n  </testcase>\n", head, tag,
                     escape_markup(verdict.reason), escape_markup(body(verdict)), tag);
}

}  // namespace

std::string escape_markup(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto code = static_cast<unsigned char>(c);
        out += code < 0x20 && c != '\n' && c != '\t' ? '?' : c;
      }
    }
  }
  return out;
}

std::string report_junit(const Report& report) {
  std::size_t failures = 0, errors = 0;
  std::string cases;
  for (const Verdict& verdict : report.verdicts) {
    failures += verdict.outcome == Outcome::fail;
    errors += verdict.outcome == Outcome::inconclusive;
    cases += testcase(verdict);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\">\n{}</testsuite>\n",
      escape_markup(report.title), report.verdicts.size(), failures, errors, cases);
}

}  // namespace shardproof
