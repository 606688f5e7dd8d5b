// accept_tables: what the screen and the report show of the legs, as tables and lines of charts.
// Thread rule: pure functions of traces.
#pragma once

#include <vector>

#include "checkpoint/manifest.h"
#include "harness/accept_plan.h"
#include "harness/report.h"

namespace shardproof {

// One row a step: loss and gradient norm (with the bits of the loss), learning rate, valid tokens.
ReportSection loss_table(const std::string& corpus, const Trace& trace);
// One row a rank: bytes by use; the optimizer's share apart from what block granularity adds.
ReportSection memory_table(const std::string& corpus, const Trace& trace);
ReportSection manifest_table(const std::string& corpus, const Manifest& manifest);
// One row a step after `from`: both losses, and whether norm, rate, samples and state are the same
// bits.
ReportSection resume_table(const std::string& title, const Trace& uncut, const Trace& resumed,
                           std::int64_t from);
ReportSection digest_table(const std::string& corpus, const std::vector<LegResult>& legs);
ReportSection time_table(const std::string& corpus, const std::vector<LegResult>& legs);
std::vector<ReportSeries> loss_series(const std::string& corpus,
                                      const std::vector<LegResult>& legs);

// Columns padded with blanks; numbers as they are.
std::string text_table(const ReportSection& section);

}  // namespace shardproof
