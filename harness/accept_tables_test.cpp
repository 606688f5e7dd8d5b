// ctest: unit timeout=60
// The memory table of a report: columns for what is offloaded only where something is.
#include "harness/accept_tables.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardproof {
namespace {

Trace trace_with(const Json& event) {
  Trace trace;
  trace.ranks.emplace_back();
  trace.ranks.back().others = {event};
  return trace;
}

// The cell of the first row under a column; empty when there is no such column.
std::string cell(const ReportSection& table, const std::string& column) {
  const auto at = std::ranges::find(table.columns, column);
  if (at == table.columns.end()) return "";
  return table.rows.at(0).at(static_cast<std::size_t>(at - table.columns.begin()));
}

TEST(MemoryTable, ShowsWhatIsOffloadedAndWhatAStepMoved) {
  Json event{{"kind", "memory"}, {"step", 3}};
  event["bytes"] = Json{{"optimizer", 0},
                        {"optimizer_offloaded", 1212},
                        {"optimizer_exact", 1200},
                        {"parameters_offloaded", 404}};
  event["peak"] = Json{{"optimizer", 600}};
  event["offload"]["optimizer"] = Json{{"bytes_in", 1212}, {"bytes_out", 1212}};
  event["offload"]["parameters"] = Json{{"bytes_in", 808}, {"bytes_out", 404}};
  const ReportSection table = memory_table("corpus", trace_with(event));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].size(), table.columns.size());
  EXPECT_EQ(cell(table, "optimizer"), "0");
  EXPECT_EQ(cell(table, "above it"), "+12");
  EXPECT_EQ(cell(table, "optimizer offloaded"), "1212");
  EXPECT_EQ(cell(table, "its peak on the device"), "600");
  EXPECT_EQ(cell(table, "parameters offloaded"), "404");
  EXPECT_EQ(cell(table, "in a step"), "2020");
  EXPECT_EQ(cell(table, "out a step"), "1616");
}

TEST(MemoryTable, HasNoSuchColumnsWhereNothingIs) {
  Json event{{"kind", "memory"}, {"step", 3}};
  event["bytes"] = Json{{"optimizer", 1212}, {"optimizer_exact", 1200}};
  const ReportSection table = memory_table("corpus", trace_with(event));
  EXPECT_EQ(table.rows.at(0).size(), table.columns.size());
  EXPECT_EQ(cell(table, "above it"), "+12");
  EXPECT_EQ(cell(table, "optimizer offloaded"), "");
}

}  // namespace
}  // namespace shardproof
