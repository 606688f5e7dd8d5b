// ctest: fault timeout=180 lock=mpi
// Wrong calls on real processes: named by every rank with the guards, silent or hung without.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/wrong_call_table.h"

namespace shardproof {
namespace {

WrongCallOptions options_of(std::vector<std::size_t> sizes) {
  WrongCallOptions options;
  options.rank_command = {SHARDPROOF_COMMAND, "faults", "table-rank"};
  options.sizes = std::move(sizes);
  return options;
}

std::size_t ranks_that(WrongCallEnd end, const std::vector<WrongCallOutcome>& outcomes) {
  return static_cast<std::size_t>(std::count_if(outcomes.begin(), outcomes.end(),
                                                [&](const auto& each) { return each.end == end; }));
}

// What a rank says holds a word of the mistake, and the ranks.
const char* word_of(const WrongCallRow& row) {
  if (row.name == "op") return "reduce op: ";
  if (row.name == "order" || row.name == "skip" || row.name == "extra") return "operation: ";
  if (row.name == "split") return "split 3: ";
  if (row.name == "group" || row.name == "tag") return "waits in";
  return row.name == "dtype" ? "dtype: " : row.name == "count" ? "count: " : "root: ";
}

TEST(WrongCallTable, GuardsNameEveryMistakeOnEveryRankAndNothingWasWritten) {
  WrongCallOptions options = options_of({small_wrong_call, large_wrong_call});
  options.guarded_only = true;
  const WrongCallTable table = run_wrong_call_table(options);
  EXPECT_TRUE(all_named(table)) << text_of(table);
  ASSERT_EQ(table.results.size(), 2 * wrong_call_rows().size());
  for (const WrongCallResult& result : table.results) {
    ASSERT_EQ(result.with.size(), static_cast<std::size_t>(wrong_call_ranks));
    for (const WrongCallOutcome& outcome : result.with) {
      EXPECT_EQ(name(outcome.end), "named") << result.row->name << ": " << outcome.error;
      EXPECT_FALSE(outcome.written) << result.row->name << ": " << outcome.error;
      EXPECT_NE(outcome.error.find(word_of(*result.row)), std::string::npos) << outcome.error;
      EXPECT_NE(outcome.error.find("rank 1"), std::string::npos) << outcome.error;
    }
  }
}

TEST(WrongCallTable, WithoutGuardsTheyAreSilentOrHang) {
  WrongCallOptions options = options_of({small_wrong_call});
  options.rows = 3;  // dtype, count, op
  WrongCallTable table = run_wrong_call_table(options);
  ASSERT_EQ(table.results.size(), 3U);
  const auto all = static_cast<std::size_t>(wrong_call_ranks);
  EXPECT_EQ(ranks_that(WrongCallEnd::wrong, table.results[0].without), all) << text_of(table);
  EXPECT_GT(ranks_that(WrongCallEnd::hang, table.results[1].without), 0U) << text_of(table);
  EXPECT_EQ(ranks_that(WrongCallEnd::wrong, table.results[2].without), all) << text_of(table);
  EXPECT_TRUE(all_named(table)) << text_of(table);
  EXPECT_NE(markdown_of(table).find("| wrong numbers, silent on ranks 0-3 |"), std::string::npos)
      << markdown_of(table);
  // The judgement can fail: these ends are not taken for named ones, nor is a written buffer.
  WrongCallTable spoilt = table;
  for (WrongCallResult& result : spoilt.results) result.with = result.without;
  EXPECT_FALSE(all_named(spoilt));
  table.results[1].with[2].written = true;
  EXPECT_FALSE(all_named(table));
  EXPECT_NE(text_of(table).find("A BUFFER WAS WRITTEN"), std::string::npos);
}

}  // namespace
}  // namespace shardproof
