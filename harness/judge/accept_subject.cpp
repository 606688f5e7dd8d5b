// The order of a judgement: subject file, folder, expectations, legs, verdicts, report, screen.
#include "harness/judge/accept_subject.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "harness/judge/subject_judge.h"
#include "harness/judge/subject_report.h"
#include "harness/judge/subject_run.h"
#include "harness/say.h"

namespace shardproof {
namespace {

constexpr int interrupted_exit = 130;

void write_expectations(const SubjectPlan& plan, const std::string& out) {
  Json rows = Json::array();
  for (const PlannedCheck& planned : plan.checks) {
    rows.push_back(Json{{"layout", planned.layout},
                        {"check", planned.check},
                        {"subject", planned.subject},
                        {"legs", planned.legs},
                        {"expected", planned.judge({}).sentence}});
  }
  std::ofstream file(out + "/expectations.json");
  file << rows.dump(1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  if (!file) throw Error(ErrorKind::io, "write " + out + "/expectations.json", "expectations");
}

}  // namespace

int accept_subject(const SubjectOptions& options, const ProofOptions& proof) try {
  const Duration begun = Clock::real().now();
  const Subject subject = load_subject(options.file, options.set);
  check_choice(subject, options.choice);
  const std::string shown_out = fresh_report_folder(proof.out);
  const LegFolders folders{std::filesystem::absolute(shown_out).lexically_normal().string()};
  const SubjectPlan plan = plan_subject(subject, options.choice, folders);
  write_expectations(plan, folders.out);
  const auto show = [&](const std::string& text) {
    if (!proof.quiet && !proof.json) say(text + "\n");
  };
  show(fmt::format("{}: at least {} legs, {} verdicts", subject.file, plan.legs.size(),
                   plan.checks.size()));
  SubjectRun run(subject, {folders, subject.at_once, show, proof.stop});
  bool whole = run.run(plan.legs);
  std::vector<SubjectVerdict> verdicts;
  if (whole) {
    verdicts = judge_subject(subject, plan, run, {folders.out, options.set});
    whole = proof.stop == nullptr || !proof.stop->load();
  }
  if (!whole) {
    show("interrupted; the legs so far are in " + shown_out + "/legs");
    return interrupted_exit;
  }
  const double seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  const JudgedSubject judged{subject, options.set, run.results(), verdicts, folders.out, seconds};
  const Report report = make_subject_report(proof.title, judged);
  std::optional<Error> lost;
  try {
    write_report(report, folders.out);
  } catch (const Error& error) {  // the verdicts are worth showing all the same
    lost = error;
  }
  show(subject_screen(judged, report));
  if (proof.json)
    say(report_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (lost) throw *lost;
  show(fmt::format("report: {}/report.html ({:.0f} s)", shown_out, seconds));
  return exit_code(report.verdicts);
} catch (const std::filesystem::filesystem_error& error) {
  throw Error(ErrorKind::io, error.path1().string(), error.code().message());
}

}  // namespace shardproof
