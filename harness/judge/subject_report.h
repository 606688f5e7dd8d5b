// subject_report: what the report and the screen say of a subject. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "harness/judge/subject_judge.h"
#include "harness/report.h"

namespace shardproof {

struct JudgedSubject {
  const Subject& subject;
  const std::vector<std::string>& set;  // keys of the command line
  const SubjectLegs& legs;
  const std::vector<SubjectVerdict>& verdicts;
  std::string out;
  double seconds = 0;
};

Report make_subject_report(const std::string& title, const JudgedSubject& judged);

// The table of layouts and checks, then every verdict in words.
std::string subject_screen(const JudgedSubject& judged, const Report& report);

}  // namespace shardproof
