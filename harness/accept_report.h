// accept_report: what an acceptance run found, as a Report and as text of the screen.
// Thread rule: pure, but for the clock and host name in `timing`.
#pragma once

#include <string>
#include <vector>

#include "harness/accept_run.h"
#include "harness/report.h"

namespace shardproof {

Report make_report(const std::string& title, const std::vector<CorpusResult>& results,
                   double seconds);

// The commit of the sources this program was built from, or "unknown".
std::string source_commit();
// Host, cores, the time now and how long it took.
Json machine_facts(double seconds);

// The run line, or words for an empty one.
std::string shown_run_line(const Config& config);

// "PASS  layout  ..." with its sentence; a failure takes a line each for what was expected, where
// the first difference is, both bit patterns, and the replay command.
std::string verdict_lines(const Verdict& verdict);

}  // namespace shardproof
